"""Audio files to float32 mono samples at one rate. What cannot be used is refused in words."""

from __future__ import annotations

import math
import os
import re
from typing import Optional

import numpy as np
import soundfile
import soxr

from tfrecord_builder import errors

# Why a recording cannot be used, in the words by which the builder counts.
MISSING = "no such audio file"
UNREADABLE = "unreadable audio"
EMPTY = "empty audio"
TRUNCATED = "truncated audio"
TOO_LONG = "longer than --max_seconds"

# libsndfile's log of a WAV whose header promises more than the file holds: "data : 64000 (should be 19169)".
_SHORT_WAV = re.compile(r"^data : (\d+) \(should be (\d+)\)$", re.MULTILINE)
# Programs that write WAV into a pipe put this or more where the length belongs: SoX 0x7ffff000, rounded down
# to whole samples (wav.c), others 0x7fffffff or 0xffffffff.
_UNKNOWN_LENGTH = 0x7FFF0000
_UNKNOWN_SAMPLES = 2**63 - 1  # libsndfile's count for a FLAC whose header, written into a pipe, has none
_MP3_SLACK_SAMPLES = 2 * 1152  # two MP3 frames: its header counts may include the encoder's own padding
_BLOCK_SAMPLES = 4096  # one FLAC frame, so that the log still says which frame was the one that failed
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
    """Reads a WAV, FLAC, Ogg or MP3 file of any rate, width and number of channels.

    Args:
      path: the file; its name decides nothing.
      sample_rate: samples a second to give; audio of another rate is resampled.
      max_seconds: longest recording to accept; of a longer one no more than that is read.
      start_seconds: where to begin.
      seconds: how much to read, less where the recording ends before; None to its end.
      channel: the channel to take, from 0; None for the mean of all.

    Returns:
      float32 [num_samples] in [-1, 1] (resampling and float files may go beyond).
        There is at least one sample.

    Raises:
      AudioError: the file is missing, empty, truncated, too long or no audio, or holds no samples.
    """
    _check_file(path)
    if start_seconds or seconds is not None:
        samples, file_rate = _decode_part(path, start_seconds, seconds)
    else:
        samples, file_rate = _decode(path, max_seconds)
    if channel is not None:
        samples = samples[:, channel : channel + 1]
    waveform = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1)
    if file_rate != sample_rate and len(waveform):
        waveform = soxr.resample(waveform, file_rate, sample_rate)
    if not len(waveform):
        raise AudioError(
            f"{path}: audio has 0 samples at {sample_rate} Hz, expected some; "
            "remove the file from the corpus",
            EMPTY,
        )
    return waveform


class _Stream(soundfile.SoundFile):
    """A file that is read from front to back.

    soundfile moves to where it is after every block, which fails at the end of a FLAC from a pipe: its header
    does not know the length.
    """

    def seekable(self) -> bool:
        return False


def _check_file(path: str) -> None:
    if os.path.isdir(path):
        raise AudioError(f"{path}: is a directory, expected an audio file", MISSING)
    if not os.path.exists(path):
        raise AudioError(f"{path}: there is no such file", MISSING)
    if not os.path.getsize(path):
        raise AudioError(f"{path}: file is empty, expected audio", EMPTY)


def _decode_part(path: str, start_seconds: float, seconds: Optional[float]) -> tuple[np.ndarray, int]:
    """Gives float32 [num_samples, num_channels] and the rate in Hz of a part of a recording."""
    try:
        with open(path, "rb") as file, soundfile.SoundFile(file.fileno(), closefd=False) as stream:
            stream.seek(round(start_seconds * stream.samplerate))
            num_samples = -1 if seconds is None else round(seconds * stream.samplerate)
            return stream.read(num_samples, dtype="float32", always_2d=True), stream.samplerate
    except soundfile.LibsndfileError as error:
        reason = error.error_string.removeprefix("Error : ").rstrip(".")
        raise AudioError(f"{path}: is no WAV, FLAC, Ogg or MP3 that can be read ({reason})") from error


def _decode(path: str, max_seconds: float) -> tuple[np.ndarray, int]:
    """Gives float32 [num_samples, num_channels] and the rate in Hz of a whole recording."""
    try:  # by descriptor: soundfile takes the headers of a file named *.raw and names in UTF-8 for granted
        with open(path, "rb") as file, _Stream(file.fileno(), closefd=False) as stream:
            rate = stream.samplerate
            samples, problem = _read_blocks(stream, max_seconds * rate)
    except OSError as error:
        raise AudioError(f"{path}: cannot be read ({error.strerror}), expected an audio file") from error
    except soundfile.LibsndfileError as error:
        reason = error.error_string.removeprefix("Error : ").rstrip(".")
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


def _read_blocks(stream: soundfile.SoundFile, max_samples: float) -> tuple[np.ndarray, str]:
    """Reads to the end, or past max_samples; what the header says of the length sizes no memory.

    Returns:
      float32 [num_samples, num_channels], and how they fall short of the file's own header, or nothing.
    """
    blocks, num_samples = [np.empty([0, stream.channels], np.float32)], 0
    try:
        while num_samples <= max_samples:
            # No more than there is: libsndfile reports an Ogg that is read beyond its end as cut.
            wanted = min(_BLOCK_SAMPLES, stream.frames - num_samples)
            block = stream.read(wanted, dtype="float32", always_2d=True)
            if not len(block):
                break
            blocks.append(block)
            num_samples += len(block)
    except soundfile.LibsndfileError:
        if "STREAM_DECODER_END_OF_STREAM" not in stream.extra_info:  # else libFLAC met the end within a frame
            raise
        return blocks[0], "the FLAC stream has no end"
    return np.concatenate(blocks), _truncation(stream, num_samples)


def _truncation(stream: soundfile.SoundFile, num_samples: int) -> str:
    """Says how a stream that was read falls short of its own header, or nothing."""
    short_wav = _SHORT_WAV.search(stream.extra_info)
    if short_wav and int(short_wav[1]) < _UNKNOWN_LENGTH:
        return f"it has {short_wav[2]} bytes of samples, expected {short_wav[1]}"
    if "without an End-Of-Stream flag" in stream.extra_info:
        return "the Ogg stream has no end"
    if stream.frames != _UNKNOWN_SAMPLES and stream.frames - num_samples > _MP3_SLACK_SAMPLES:
        return f"it has {num_samples} samples, expected {stream.frames}"
    return ""
