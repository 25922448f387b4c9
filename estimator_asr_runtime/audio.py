"""Audio files to waveforms of the model's sample rate; channels are averaged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import soundfile

from estimator_asr_runtime import errors, resampling, statuses

_SAMPLE_RATES_HZ = range(1000, 1_000_001)  # of recorders; another rate means a damaged header


class Audio(NamedTuple):
    """A waveform, float32 [num_samples], full scale 1; empty unless the status is ok."""

    waveform: np.ndarray
    status: str


def read(path: str, sample_rate: int, max_seconds: int) -> Audio:
    """Reads an audio file of any format of libsndfile; sample_rate (Hz) is that of the result.

    Raises errors.UserError if the file cannot be opened.
    """
    nothing = np.zeros(0, np.float32)
    try:
        with open(path, "rb") as file, soundfile.SoundFile(file) as sound:
            if sound.samplerate not in _SAMPLE_RATES_HZ:
                return Audio(nothing, statuses.MALFORMED)
            if sound.frames > max_seconds * sound.samplerate:
                return Audio(nothing, statuses.TOO_LONG)
            samples, rate = sound.read(dtype="float32", always_2d=True), sound.samplerate
    except soundfile.LibsndfileError:
        return Audio(nothing, statuses.MALFORMED)
    except OSError as error:
        raise errors.UserError(f"{path}: {error.strerror}; pass the path of an audio file") from error
    mono = samples[:, 0] if samples.shape[1] == 1 else np.mean(samples, axis=1)
    return Audio(resampling.resample(mono, rate, sample_rate), statuses.OK)
