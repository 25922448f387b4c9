"""Audio files to float32 mono samples at one rate. What cannot be used is refused in words."""

from __future__ import annotations

import math
import os
from typing import BinaryIO, Optional

import numpy as np
import soundfile
import soxr

from tfrecord_builder import audio_stream, errors, files

# Why a recording cannot be used, in the words by which the builder counts.
MISSING = "no such audio file"
UNREADABLE = "unreadable audio"
EMPTY = "empty audio"
TRUNCATED = "truncated audio"
TOO_LONG = "longer than --max_seconds"
NO_CHANNEL = "no such channel"
DISK_FAILED = "its disk fails"  # which is no fault of the recording

SILENT_PEAK = 0.0005  # of full scale: -66 dB, 16 steps of 16-bit audio; what stays below is silence
_BLOCK_BYTES = 1 << 20
_SAMPLE_RATES_HZ = range(1000, 1_000_001)  # what recorders write; beyond, a header is damaged


class AudioError(errors.UserError):
    """A recording cannot be used; `reason` is one of the words above."""

    def __init__(self, message: str, reason: str = UNREADABLE):
        super().__init__(message)
        self.reason = reason


def read_audio(
    path: str,
    sample_rate: int,
    max_seconds: float = math.inf,
    start_seconds: float = 0.0,
    seconds: Optional[float] = None,
    channel: Optional[int] = None,
) -> np.ndarray:
    """Reads a WAV, FLAC, Ogg or MP3 file of any rate, width and number of channels, or a part of it.

    Args:
      path: the file; its name decides nothing.
      sample_rate: samples a second to give; audio of another rate is resampled.
      max_seconds: longest recording to accept; of a longer one no more than that is read.
      start_seconds: where to begin.
      seconds: how much to read; None for all that is left.
      channel: which one to take, from 0; None for the mean of all.

    Returns:
      float32 [num_samples] in [-1, 1] (resampling and float files may go beyond). There is at least one
        sample.

    Raises:
      AudioError: the file is missing, empty, truncated, too long or no audio, or holds no samples, not the
        part or not the channel.
      OSError: the object store fails.
    """
    _check_file(path)
    samples, file_rate = _decode(path, max_seconds, start_seconds, seconds)
    waveform = _take_channel(path, samples, channel)
    if file_rate != sample_rate and len(waveform):
        waveform = soxr.resample(waveform, file_rate, sample_rate)
    if not len(waveform):
        raise AudioError(
            f"{path}: audio has 0 samples at {sample_rate} Hz, expected some; "
            "remove the file from the corpus",
            EMPTY,
        )
    return waveform


def _take_channel(path: str, samples: np.ndarray, channel: Optional[int]) -> np.ndarray:
    num_channels = samples.shape[1]
    if channel is not None and not 0 <= channel < num_channels:
        raise AudioError(
            f"{path}: channel is {channel}, expected 0 to {num_channels - 1}; mend the corpus's list",
            NO_CHANNEL,
        )
    if num_channels == 1 or channel is not None:
        return samples[:, channel or 0]
    return samples.mean(axis=1)


def _check_file(path: str) -> None:
    if files.is_remote(path):
        return  # each question takes a round trip or two, and opening it answers them
    if files.is_directory(path):
        raise AudioError(f"{path}: is a directory, expected an audio file", MISSING)
    try:
        num_bytes, _ = files.size_and_time(path)
    except (OSError, ValueError) as error:  # the latter for a name that no file can have
        if isinstance(error, OSError):
            _check_cause(path, error)
        raise AudioError(f"{path}: there is no such file", MISSING) from None
    if not num_bytes:
        raise AudioError(f"{path}: file is empty, expected audio", EMPTY)


def _check_cause(path: str, error: OSError) -> None:
    """Raises AudioError if the disk fails, and not the recording."""
    if not files.concerns_one_file(error):
        raise AudioError(str(errors.store_failed(path, error)), DISK_FAILED) from error


def _read(file: BinaryIO, *arguments) -> tuple[np.ndarray, int, str]:
    """Calls audio_stream.read; raises the OSError of a failed read, which libsndfile takes for the end."""
    try:
        found = audio_stream.read(file, *arguments)
    except soundfile.LibsndfileError:
        _read_through(file)
        raise
    if found[2]:
        _read_through(file)
    return found


def _read_through(file: BinaryIO) -> None:
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    while os.read(file.fileno(), _BLOCK_BYTES):
        pass


def _reason(error: soundfile.LibsndfileError) -> str:
    reason = error.error_string.removeprefix("Error : ").rstrip(".")
    # What libsndfile says of the open file of an MP3 whose first frames it cannot read.
    return "damaged MP3" if reason.startswith("File does not exist") else reason


def _decode(
    path: str, max_seconds: float, start_seconds: float, seconds: Optional[float]
) -> tuple[np.ndarray, int]:
    """Gives float32 [num_samples, num_channels] and the rate in Hz of a recording, or of a part of it."""
    try:  # by descriptor: soundfile takes the headers of a file named *.raw and names in UTF-8 for granted
        with files.open_binary(path) as file:
            if not os.fstat(file.fileno()).st_size:  # of a remote file this is the first time to see it
                raise AudioError(f"{path}: file is empty, expected audio", EMPTY)
            is_whole = not start_seconds and seconds is None
            part = None if is_whole else (start_seconds, seconds)
            samples, rate, problem = _read(file, max_seconds, part)
    except FileNotFoundError:
        raise AudioError(f"{path}: there is no such file", MISSING) from None
    except OSError as error:
        if files.is_remote(path) and not isinstance(error, PermissionError):
            raise  # the store fails, not the recording
        _check_cause(path, error)
        raise AudioError(f"{path}: cannot be read ({error.strerror}), expected an audio file") from error
    except soundfile.LibsndfileError as error:
        reason = _reason(error)
        raise AudioError(f"{path}: is no WAV, FLAC, Ogg or MP3 that can be read ({reason})") from error
    if rate not in _SAMPLE_RATES_HZ:
        wanted = f"{_SAMPLE_RATES_HZ[0]} to {_SAMPLE_RATES_HZ[-1]}"
        raise AudioError(f"{path}: sample rate is {rate} Hz, expected {wanted}; copy the file again")
    if len(samples) > max_seconds * rate:
        raise AudioError(f"{path}: audio is longer than {max_seconds:g} s; cut or remove it", TOO_LONG)
    if problem:
        raise AudioError(
            f"{path}: audio is truncated, {problem}; copy the file again or remove it", TRUNCATED
        )
    return samples, rate
