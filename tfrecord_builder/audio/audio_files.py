"""Reads audio files as mono float32 samples at a chosen sample rate; unusable files raise AudioError."""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Iterator
from typing import BinaryIO, Optional

import numpy as np
import soundfile
import soxr
from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_stream, containers, open_recording
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

# Reasons for rejecting audio; the builder counts the rejected utterances for each reason.
MISSING = "no such audio file"
UNREADABLE = "unreadable audio"
EMPTY = "empty audio"
TRUNCATED = "truncated audio"
TOO_LONG = "longer than --max_seconds"
NO_CHANNEL = "no such channel"
DISK_FAILED = "disk failed"  # the audio file itself may be intact

SILENT_PEAK = 0.0005  # audio with a lower peak (-66 dBFS, or 16 in 16-bit samples) counts as silent
# Channels cancel out if the variance of their sum is less than CANCELLED times the loudest channel's variance
# (the mean of two channels is then at least 20 dB quieter than the loudest). The first channel whose variance
# is at least LOUD times the loudest channel's is then used instead of the mean.
CANCELLED, LOUD = 0.04, 0.25
SAMPLE_RATES_HZ = range(1000, 1_000_001)  # any other rate means that the header is damaged


class AudioError(errors.UserError):
    """Raised if an audio file cannot be used; `reason` is a constant of this module, such as MISSING."""

    def __init__(self, message: str, reason: str = UNREADABLE):
        super().__init__(message)
        self.reason = reason


def encode_wav(waveform: np.ndarray, sample_rate: int, subtype: str = "PCM_16") -> bytes:
    """Encodes samples, float [num_samples], as a WAV file; `subtype` is one of soundfile's sample formats."""
    file = io.BytesIO()
    soundfile.write(file, waveform, sample_rate, subtype, format="WAV")
    return file.getvalue()


def read_audio(
    path: str,
    sample_rate: int,
    max_seconds: float = math.inf,
    start_seconds: float = 0.0,
    seconds: Optional[float] = None,
    channel: Optional[int] = None,
    opened: Optional[open_recording.OpenRecording] = None,
) -> np.ndarray:
    """Reads all or part of an audio file: WAV, FLAC, Ogg, MP3 or a format that containers.py decodes.

    Args:
        path: a file with any sample rate, sample width and number of channels; the extension is ignored.
        sample_rate: sample rate of the result in Hz; audio at other rates is resampled.
        max_seconds: maximum duration; longer audio is rejected after slightly more than this has been read.
        start_seconds: start of the segment.
        seconds: duration of the segment; None to read to the end of the file.
        channel: index of a channel; None for the mean of all channels, or a loud channel if they cancel out.
        opened: if not None, the recording to read; `path` is then used only in messages.

    Returns:
        float32 [num_samples], not empty; in [-1, 1], which resampled audio and float files may exceed.

    Raises:
        AudioError: the file is missing, empty, truncated, too long or not audio, or does not contain the
            segment or channel.
        OSError: the object store failed.
    """
    end_seconds = start_seconds + min(max_seconds, math.inf if seconds is None else seconds)
    with contextlib.ExitStack() as stack, as_audio_error(path):
        if opened is None:
            opened = open_recording.OpenRecording(stack.enter_context(open_file(path)), stack)
        reader, samples = opened.read_with(
            lambda reader: reader.read(max_seconds, start_seconds, seconds), end_seconds
        )
        if reader.warning:
            logging.warning("%s: %s", path, reader.warning)
        _check_rate(path, reader.sample_rate)
        if len(samples) > max_seconds * reader.sample_rate:
            raise AudioError(f"{path}: audio is longer than {max_seconds:g} s; cut or remove it", TOO_LONG)
        _check_whole(path, opened.file, reader.problem)
    waveform = _select_channel(path, samples, channel)
    if reader.sample_rate != sample_rate and len(waveform):
        waveform = soxr.resample(waveform, reader.sample_rate, sample_rate)
    _check_not_empty(path, len(waveform), sample_rate)
    return waveform


class AudioBlocks:
    """An audio file of any length, read in blocks; formats and channels are handled as in read_audio.

    A block is computed from at most 16,384 samples per channel: 1 s at 16 kHz, or 2 s at 8 kHz.

    Attributes:
        seconds: duration in the header, corrected if it is wrong; None if the header has no duration.
        warning: explains why more samples are read than the header states; empty if the header is right.

    Raises (in the constructor and during iteration):
        AudioError, OSError: as for read_audio; truncation is detected only at the end of the file.
    """

    def __init__(
        self, path: str, sample_rate: int, file: Optional[BinaryIO] = None, max_seconds: float = math.inf
    ):
        """Opens `path`. If a seekable `file` is passed, reads that instead and uses `path` only in messages.

        Closes the file if it cannot be read. If FFmpeg decodes it, samples after max_seconds may be missing.
        """
        self._path, self._sample_rate, self._max_seconds = path, sample_rate, max_seconds
        with contextlib.ExitStack() as stack, as_audio_error(path):
            self._file = stack.enter_context(file or open_file(path))
            opened = open_recording.OpenRecording(self._file, stack)
            self._reader, _ = opened.read_with(lambda reader: reader.look_ahead(), max_seconds)
            _check_rate(path, self._reader.sample_rate)
            self._opened = stack.pop_all()
        self.seconds, self.warning = self._reader.seconds, self._reader.warning

    def close(self) -> None:
        """Closes the file; the end of an iteration closes it too."""
        self._opened.close()

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yields blocks, float32 [num_samples], at `sample_rate`; joined, they equal read_audio's result."""
        with self._opened:
            rate, blocks, num_samples = self._reader.sample_rate, self._read_blocks(), 0
            resampler = soxr.ResampleStream(rate, self._sample_rate, 1, dtype="float32")
            block: Optional[np.ndarray] = np.empty([0, 1], np.float32)
            while block is not None:
                with as_audio_error(self._path), audio_stream.noticing_failed_reads(self._file):
                    block = next(blocks, None)
                is_last = block is None
                samples = np.empty(0, np.float32) if is_last else _select_channel(self._path, block, None)
                if rate != self._sample_rate:
                    samples = resampler.resample_chunk(samples, last=is_last)
                if len(samples):
                    num_samples += len(samples)
                    yield samples
            with as_audio_error(self._path):
                _check_whole(self._path, self._file, self._reader.problem)
            _check_not_empty(self._path, num_samples, self._sample_rate)

    def _read_blocks(self) -> Iterator[np.ndarray]:
        """Yields blocks of samples; where libsndfile stops before the end of the audio, FFmpeg takes over."""
        num_samples = 0
        for block in self._reader.read_blocks():
            num_samples += len(block)
            yield block
        if self._reader.trailing_audio:
            name, why = self._reader.format, self._reader.trailing_audio
            decoding = containers.decode(self._file, name, self._max_seconds, why)
            self._reader = self._opened.enter_context(decoding)
            for block in self._reader.read_blocks():
                yield block[num_samples:]
                num_samples = max(0, num_samples - len(block))


def _select_channel(path: str, samples: np.ndarray, channel: Optional[int]) -> np.ndarray:
    num_channels = samples.shape[1]
    if channel is not None and not 0 <= channel < num_channels:
        expected = f"0 to {num_channels - 1}"
        message = f"{path}: channel is {channel}, expected {expected}; fix the channel in the corpus manifest"
        raise AudioError(message, NO_CHANNEL)
    if num_channels == 1 or channel is not None or not len(samples):
        return samples[:, channel or 0]
    with np.errstate(over="ignore", invalid="ignore"):  # suppresses warnings about huge, NaN or Inf samples
        levels, total = samples.var(axis=0), samples.sum(axis=1).var()
        if total < CANCELLED * levels.max():
            return samples[:, np.argmax(levels >= LOUD * levels.max())]
        return samples.mean(axis=1)


def _check_not_empty(path: str, num_samples: int, sample_rate: int) -> None:
    if not num_samples:
        problem = f"audio is empty or shorter than one sample at {sample_rate} Hz"
        raise AudioError(f"{path}: {problem}; replace or remove the file", EMPTY)


def _check_whole(path: str, file: BinaryIO, problem: str) -> None:
    if problem:
        audio_stream.read_through(file)
        message = f"{path}: audio is truncated: {problem}; copy the file again or remove it"
        raise AudioError(message, TRUNCATED)


@contextlib.contextmanager
def as_audio_error(path: str) -> Iterator[None]:
    """Converts errors of decoders and the file system to AudioError; errors of object stores stay OSError."""
    try:
        yield
    except OSError as error:
        if urls.is_remote(path) and not isinstance(error, PermissionError):
            raise  # an error of the object store, not of the file
        if not files.concerns_one_file(error):
            raise AudioError(str(errors.store_failed(path, error)), DISK_FAILED) from error
        raise AudioError(f"{path}: audio file cannot be read ({error.strerror})") from error
    except containers.DecodingError as error:
        raise AudioError(f"{path}: {error}") from error
    except soundfile.LibsndfileError as error:
        reason = error.error_string.removeprefix("Error : ").rstrip(".")
        if reason.startswith("File does not exist"):  # libsndfile's message for an MP3 without a whole frame
            reason = "damaged MP3"
        raise AudioError(f"{path}: the file cannot be read as {open_recording.FORMATS} ({reason})") from error


def _check_rate(path: str, rate: int) -> None:
    if rate not in SAMPLE_RATES_HZ:
        expected = f"{SAMPLE_RATES_HZ[0]} to {SAMPLE_RATES_HZ[-1]}"
        raise AudioError(f"{path}: sample rate is {rate} Hz, expected {expected}; copy the file again")


def open_file(path: str) -> BinaryIO:
    """Opens a file for soundfile, which itself would treat *.raw as headerless and require UTF-8 names."""
    try:
        file = files.open_binary(path)
    except (FileNotFoundError, ValueError):  # ValueError: the name contains a NUL
        raise AudioError(f"{path}: audio file does not exist", MISSING) from None
    if not os.fstat(file.fileno()).st_size:
        file.close()
        raise AudioError(f"{path}: audio file is empty", EMPTY)
    return file
