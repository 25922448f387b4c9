"""Threads that decode uploaded recordings in any audio format, from memory, and cut them at pauses.

Time and memory are limited, because a small FLAC file may contain hours of silence. The total length of the
recordings that are being decoded or are waiting to be decoded is limited too. Long recordings have their own
thread and their own limit, so that short recordings do not wait for long ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from concurrent import futures
from typing import NamedTuple

import numpy as np

from estimator_asr.serving.server import api_errors
from estimator_asr.serving.transcripts import pauses, transcriber
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, containers, ffmpeg_process

SMALL_BYTES = 1 << 20  # up to this size, parsing JSON or finding a recording's length takes milliseconds
_NAME = "file"  # name of the form field, used in messages instead of the client's file name
# CPU seconds allowed for decoding: a constant, and an additional amount per second of audio.
# The slowest format needs 0.02 s per second of audio.
_DECODING_SECONDS, _SECONDS_PER_SECOND = ffmpeg_process.CPU_SECONDS, ffmpeg_process.CPU_SECONDS_PER_SECOND
_LONG_SECONDS = 60.0
_RATE = 20.0  # lowest expected decoding speed, in seconds of audio per second


class Upload(NamedTuple):
    """A decoded recording: its segments (none if no speech was found) and its length in seconds."""

    pieces: list[pauses.Piece]
    seconds: float
    is_unfinished: bool = False  # the header says 0 samples, but samples follow


class UploadDecoder:
    """Decodes uploads in threads."""

    def __init__(self, max_seconds: float, max_upload_seconds: float):
        """Creates the threads; long uploads may last `max_seconds` in total, and so may short ones."""
        self._max_upload_seconds = max_upload_seconds
        self._headers, self._containers = (futures.ThreadPoolExecutor(1) for _ in range(2))
        self._short, self._long = _Lane(max_seconds), _Lane(max_seconds)

    @property
    def seconds(self) -> float:
        """Seconds of audio, according to the headers, in uploads that are being decoded or are waiting."""
        return self._short.seconds + self._long.seconds

    async def decode(self, content: bytes, sample_rate: int) -> Upload:
        """Returns the recording, resampled to `sample_rate` in Hz; see `read`.

        Raises api_errors.ApiError if too many seconds of audio are being decoded; this limit does not apply
        if no other recording of the same kind (long or short) is being decoded.
        """
        arguments = content, sample_rate, self._max_upload_seconds
        name = containers.find_format(lambda count, start: content[start : start + count])
        if name or len(content) > SMALL_BYTES:  # reading the header may start a process
            thread = self._containers if name not in ("", *ffmpeg_process.JOINED) else self._headers
            seconds = await asyncio.get_running_loop().run_in_executor(thread, measure, *arguments)
        else:
            seconds = measure(*arguments)
        lane = self._long if seconds > _LONG_SECONDS else self._short
        return await lane.decode(seconds, *arguments)


class _Lane:
    """A decoding thread; `seconds` is the length of its unfinished uploads according to their headers."""

    def __init__(self, max_seconds: float):
        self._thread, self._max_seconds = futures.ThreadPoolExecutor(1), max_seconds
        self.seconds = 0.0

    async def decode(self, seconds: float, *arguments) -> Upload:
        if self.seconds and self.seconds + seconds > self._max_seconds:
            raise api_errors.overloaded(
                f"{self.seconds:.0f} s of audio are being decoded, and this request has {seconds:.0f} s "
                f"(limit: {self._max_seconds:g} s in total)",
                self.seconds / _RATE,  # expected time until all this audio is decoded
            )
        self.seconds += seconds
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, read, *arguments)
        finally:
            self.seconds -= seconds


def measure(content: bytes, sample_rate: int, max_seconds: float) -> float:
    """Returns a recording's length in seconds from its header, or `max_seconds` if the header has no length.

    Raises errors.UserError if the content is not audio, is empty, or is too long.
    """
    with _open(content, sample_rate, max_seconds) as blocks:
        return max_seconds if blocks.seconds is None else blocks.seconds


def read(content: bytes, sample_rate: int, max_seconds: float) -> Upload:
    """Decodes a recording, resamples it to `sample_rate` in Hz, and cuts it at pauses.

    Raises errors.UserError if the content is not audio, is damaged, empty, too long or far too loud, contains
    NaN or Inf samples, or takes too long to decode.
    """
    with _open(content, sample_rate, max_seconds) as blocks:
        checked = transcriber.CheckedBlocks(_limit(blocks, sample_rate, max_seconds), _NAME)
        pieces = list(pauses.cut(checked, sample_rate))
        return Upload(pieces, checked.num_samples / sample_rate, bool(blocks.warning))


@contextlib.contextmanager
def _open(content: bytes, sample_rate: int, max_seconds: float) -> Iterator[audio_files.AudioBlocks]:
    if not content:
        raise errors.UserError(f"{_NAME} is empty; send a recording")
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        with contextlib.closing(audio_files.AudioBlocks(_NAME, sample_rate, file, max_seconds)) as blocks:
            _check_length(blocks.seconds or 0.0, max_seconds)
            yield blocks


def _limit(blocks: audio_files.AudioBlocks, sample_rate: int, max_seconds: float) -> Iterator[np.ndarray]:
    """Yields the blocks; raises errors.UserError if they are too long, or take too long to decode."""
    cpu_seconds, num_samples, unread = 0.0, 0, iter(blocks)
    while True:
        started = time.thread_time()  # this thread's CPU time; voice activity detection is not timed
        block = next(unread, None)
        if block is None:
            return
        cpu_seconds += time.thread_time() - started
        num_samples += len(block)
        seconds = num_samples / sample_rate
        _check_length(seconds, max_seconds)
        limit = _DECODING_SECONDS + _SECONDS_PER_SECOND * seconds
        if cpu_seconds > limit:
            raise errors.UserError(
                f"{_NAME}: decoding {seconds:.0f} s of audio takes more than {limit:.0f} s of CPU time; "
                "convert the file to WAV or FLAC"
            )
        yield block


def _check_length(seconds: float, max_seconds: float) -> None:
    if seconds > max_seconds:
        raise errors.UserError(f"{_NAME}: audio is longer than {max_seconds:g} s; send a shorter recording")
