"""Clips for the benchmark of the server: WAV files joined until each clip is long enough."""

from __future__ import annotations

import glob
import os
from typing import NamedTuple

import numpy as np
import soundfile

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files


class Clip(NamedTuple):
    """A 16-bit WAV file and its duration in seconds."""

    content: bytes
    seconds: float


def read(audio_dir: str, least_seconds: float) -> list[Clip]:
    """Returns the clips, in the order of the file names; audio that is too short for another clip is dropped.

    Raises:
        errors.UserError: the WAV files in the directory are too short for one clip.
    """
    clips, parts, num_samples, sample_rate = [], [], 0, 0
    for path in sorted(glob.glob(os.path.join(glob.escape(audio_dir), "*.wav"))):
        waveform, sample_rate = soundfile.read(path, dtype="float32")
        parts.append(waveform)
        num_samples += len(waveform)
        if num_samples >= least_seconds * sample_rate:
            clips.append(_make_clip(np.concatenate(parts), sample_rate))
            parts, num_samples = [], 0
    if not clips:
        raise errors.UserError(
            f"{audio_dir}: its WAV files have {num_samples / max(sample_rate, 1):g} s, expected at least "
            f"{least_seconds:g} s; pass another --audio_dir"
        )
    return clips


def _make_clip(waveform: np.ndarray, sample_rate: int) -> Clip:
    return Clip(audio_files.encode_wav(waveform, sample_rate), len(waveform) / sample_rate)
