"""Audio files to float32 mono samples at one rate. What cannot be used is refused in words."""

from __future__ import annotations

import os
import re

import numpy as np
import soundfile
import soxr

from tfrecord_builder import errors

# libsndfile's log of a WAV whose header promises more than the file holds: "data : 64000 (should be 19169)".
_SHORT_WAV = re.compile(r"^data : (\d+) \(should be (\d+)\)$", re.MULTILINE)
_UNKNOWN_LENGTH = 0x7FFFFFFF  # programs that write WAV into a pipe put this or more where the length belongs
_MP3_SLACK_SAMPLES = 2 * 1152  # two MP3 frames: its header counts may include the encoder's own padding


def read_audio(path: str, sample_rate: int) -> np.ndarray:
    """Reads a WAV, FLAC, Ogg or MP3 file of any rate, width and number of channels.

    Args:
      path: the file.
      sample_rate: samples a second to give; audio of another rate is resampled.

    Returns:
      float32 [num_samples] in [-1, 1] (resampling and float files may go beyond), the mean of the channels.

    Raises:
      errors.UserError: the file is missing, empty, truncated or no audio, or holds no samples.
    """
    _check_file(path)
    try:
        with soundfile.SoundFile(path) as file:
            samples = file.read(dtype="float32", always_2d=True)  # [num_samples, num_channels]
            problem, file_rate = _truncation(file, len(samples)), file.samplerate
    except soundfile.LibsndfileError as error:
        reason = error.error_string.removeprefix("Error : ").rstrip(".")
        raise errors.UserError(f"{path}: is no WAV, FLAC, Ogg or MP3 that can be read ({reason})") from error
    if problem:
        raise errors.UserError(f"{path}: audio is truncated, {problem}; copy the file again or remove it")
    if not len(samples):
        raise errors.UserError(f"{path}: audio has 0 samples; remove the file from the corpus")
    waveform = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1)
    return waveform if file_rate == sample_rate else soxr.resample(waveform, file_rate, sample_rate)


def _check_file(path: str) -> None:
    if os.path.isdir(path):
        raise errors.UserError(f"{path}: is a directory, expected an audio file")
    if not os.path.exists(path):
        raise errors.UserError(f"{path}: there is no such file")
    if not os.path.getsize(path):
        raise errors.UserError(f"{path}: file is empty, expected audio")


def _truncation(file: soundfile.SoundFile, num_samples: int) -> str:
    """Says how an open file that was read falls short of its own header, or nothing."""
    short_wav = _SHORT_WAV.search(file.extra_info)
    if short_wav and int(short_wav[1]) < _UNKNOWN_LENGTH:
        return f"it has {short_wav[2]} bytes of samples, expected {short_wav[1]}"
    if "without an End-Of-Stream flag" in file.extra_info:
        return "the Ogg stream has no end"
    if file.frames - num_samples > _MP3_SLACK_SAMPLES:
        return f"it has {num_samples} samples, expected {file.frames}"
    return ""
