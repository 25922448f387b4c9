"""Audio files to waveforms of the model's sample rate; channels are averaged."""

from __future__ import annotations

import io
import os
from typing import NamedTuple

import numpy as np
import soundfile

from estimator_asr_runtime import errors, resampling, statuses

_SAMPLE_RATES_HZ = range(1000, 1_000_001)  # of recorders; another rate means a damaged header
_BLOCK_NUMBERS = 1 << 18


class Audio(NamedTuple):
    """A waveform, float32 [num_samples], full scale 1; empty unless the status is ok."""

    waveform: np.ndarray
    status: str


class _File(io.BufferedReader):
    """A file whose content tells its format, and which stays where it is if it cannot seek."""

    name = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return super().seek(offset, whence)
        except (OSError, ValueError):  # the offset is of a damaged header
            return self.tell()


def read(path: str, sample_rate: int, max_seconds: int) -> Audio:
    """Reads an audio file of any format of libsndfile; sample_rate (Hz) is that of the result.

    Raises errors.UserError if the file cannot be opened.
    """
    nothing = np.zeros(0, np.float32)
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.UserError(f"{path}: is not a regular file, expected an audio file; pass the path of one")
    try:
        with _File(io.FileIO(path)) as file, soundfile.SoundFile(file) as sound:
            if sound.samplerate not in _SAMPLE_RATES_HZ:
                return Audio(nothing, statuses.MALFORMED)
            with np.errstate(over="ignore", invalid="ignore"):  # such samples become NaN or Inf
                mono = _read_mono(sound, max_seconds * sound.samplerate + 1)
                if len(mono) > max_seconds * sound.samplerate:
                    return Audio(nothing, statuses.TOO_LONG)
                return Audio(resampling.resample(mono, sound.samplerate, sample_rate), statuses.OK)
    except soundfile.LibsndfileError:
        return Audio(nothing, statuses.MALFORMED)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise errors.UserError(f"{path}: {reason}; pass the path of an audio file") from error


def _read_mono(sound: soundfile.SoundFile, most: int) -> np.ndarray:
    """Reads samples until there are none or enough; the header may have another number."""
    sound.seekable = lambda: False  # to read on: soundfile would seek, which FLAC of unknown length refuses
    block = np.empty([max(_BLOCK_NUMBERS // sound.channels, 1), sound.channels], np.float32)
    blocks, count = [np.zeros(0, np.float32)], 0
    while count < most and len(samples := sound.read(out=block[: most - count])):
        blocks.append(samples[:, 0].copy() if sound.channels == 1 else np.mean(samples, axis=1))
        count += len(samples)
    return np.concatenate(blocks)
