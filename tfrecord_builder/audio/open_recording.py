"""Reads open recordings with libsndfile, or with FFmpeg if libsndfile cannot read them to the end."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable
from typing import Any, BinaryIO, Optional

import soundfile

from tfrecord_builder.audio import audio_stream, containers

FORMATS = "WAV, FLAC, Ogg, MP3, AIFF, AU, CAF, MP4, WebM, Matroska, AAC, AMR, WMA or MPEG-TS"
_MARGIN_SECONDS = 2.0  # FFmpeg may decode this much more than max_seconds

Reader = Any  # audio_stream.AudioReader or containers.ContainerReader, which have the same interface


class OpenRecording:
    """An open recording that is read once; closing `stack` ends FFmpeg's process."""

    _container = ""  # FFmpeg's name of the format, if libsndfile cannot read it at all

    def __init__(self, file: BinaryIO, stack: contextlib.ExitStack):
        self.file, self._stack = file, stack

    def read_with(self, read: Callable[[Reader], Any], max_seconds: float) -> tuple[Reader, Any]:
        """Returns a reader and the result of read(reader); FFmpeg may leave out samples after max_seconds."""
        reader = None if self._container else self._open()
        name, why = self._container, f"the file cannot be read as {FORMATS}"
        if reader is not None:
            with audio_stream.noticing_failed_reads(self.file):
                result = read(reader)
            if not reader.trailing_audio:
                return reader, result
            name, why = reader.format, reader.trailing_audio
        reader = self._decode(name, max_seconds, why)
        return reader, read(reader)

    def _open(self) -> Optional[audio_stream.AudioReader]:
        try:
            with audio_stream.noticing_failed_reads(self.file):
                return audio_stream.AudioReader(self.file)
        except soundfile.LibsndfileError:
            self._container = containers.find_format(lambda n, start: os.pread(self.file.fileno(), n, start))
            if not self._container:
                raise
        return None

    def _decode(self, name: str, max_seconds: float, why: str) -> containers.ContainerReader:
        return self._stack.enter_context(containers.decode(self.file, name, max_seconds, why))


class SharedRecording(OpenRecording):
    """An open recording from which many segments are read, each with a call of read_with.

    FFmpeg decodes the recording once, up to `end_seconds`, the end of the last segment. libsndfile decodes an
    MP3 once, because it seeks slowly in MP3s. The samples are kept in temporary files. If FFmpeg finds
    damage, it decodes the part before the damage again.
    """

    def __init__(self, file: BinaryIO, stack: contextlib.ExitStack, end_seconds: float):
        super().__init__(file, stack)
        self._mp3, self._next_seconds = self._decode_mp3(), end_seconds
        # How far FFmpeg has decoded without finding a problem, and the shortest part in which it found one.
        self._intact: tuple[float, Reader] = (-math.inf, None)
        self._damaged: tuple[float, Reader] = (math.inf, None)

    def read_with(self, read: Callable[[Reader], Any], max_seconds: float) -> tuple[Reader, Any]:
        if self._mp3 is None:
            return super().read_with(read, max_seconds)
        reader = audio_stream.AudioReader(*self._mp3)
        return reader, read(reader)

    def _decode_mp3(self) -> Optional[tuple[BinaryIO, int, int]]:
        """Returns (samples, rate, channels) of an MP3 without damage, or None for any other recording."""
        with contextlib.suppress(soundfile.LibsndfileError):
            reader = self._open()
            if reader is not None and reader.format == "mp3":
                raw = self._stack.enter_context(tempfile.TemporaryFile(buffering=0))
                for block in reader.read_blocks():
                    raw.write(block)
                if raw.tell() and not reader.problem and not reader.trailing_audio:
                    return raw, reader.sample_rate, block.shape[1]
        return None

    def _decode(self, name: str, max_seconds: float, why: str) -> containers.ContainerReader:
        while self._intact[0] < max_seconds < self._damaged[0]:
            limit = max(max_seconds, self._next_seconds)
            reader = super()._decode(name, limit, why)
            if reader.is_intact():
                self._intact = limit, reader
            else:
                self._damaged = limit, reader
                self._next_seconds = reader.decoded_seconds - _MARGIN_SECONDS
        return (self._intact if max_seconds <= self._intact[0] else self._damaged)[1]
