"""Decodes uploads in threads: what is being decoded, and what waits for it, is limited in seconds of audio.

A silent FLAC may grow a thousandfold. Long recordings have a thread and a limit of their own, so that short
ones do not wait for them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from estimator_asr.server import api_errors, uploads, worker
from tfrecord_builder.audio import containers

_LONG_SECONDS = 60.0
_FIRST_RATE = 20.0  # seconds of audio per second, before any is measured
_RATE_MEMORY = 0.8  # of the moving average


class Decoder:
    """Decodes uploads."""

    def __init__(self, max_seconds: float, max_upload_seconds: float):
        """`max_seconds` are those of all long uploads, and of all short ones; `max_upload_seconds` of one."""
        self._max_upload_seconds = max_upload_seconds
        self._headers, self._containers = worker.Worker(1), worker.Worker(1)
        self._short, self._long = _Lane(max_seconds), _Lane(max_seconds)

    async def decode(self, content: bytes, sample_rate: int) -> uploads.Upload:
        """Returns the recording at a sample rate in Hz; see uploads.read.

        Raises:
            api_errors.ApiError: too much is being decoded. One recording of any length is accepted if there
                is no other of its kind, long or short.
            errors.UserError: it cannot be used.
        """
        arguments = (content, sample_rate, self._max_upload_seconds)
        seconds = await self._measure(*arguments)
        lane = self._long if seconds > _LONG_SECONDS else self._short
        return await lane.decode(seconds, *arguments)

    async def _measure(self, content: bytes, *arguments) -> float:
        if containers.find_format(content[:12]):  # a process of its own reads the header
            return await self._containers.call(uploads.measure, content, *arguments)
        return await self._headers.parse(uploads.measure, content, *arguments)


class _Lane:
    """A thread and the uploads that wait for it; `seconds` of audio by their headers."""

    def __init__(self, max_seconds: float):
        self._worker, self._max_seconds = worker.Worker(1), max_seconds
        self._rate, self.seconds = _FIRST_RATE, 0.0

    async def decode(self, seconds: float, *arguments) -> uploads.Upload:
        with self._hold(seconds):
            started = time.monotonic()
            upload = await self._worker.call(uploads.read, *arguments)
            rate = upload.seconds / max(time.monotonic() - started, 1e-3)
            self._rate = _RATE_MEMORY * self._rate + (1 - _RATE_MEMORY) * rate
            return upload

    @contextlib.contextmanager
    def _hold(self, seconds: float) -> Iterator[None]:
        if self.seconds and self.seconds + seconds > self._max_seconds:
            raise api_errors.overloaded(
                f"{self.seconds:.0f} s of audio are being decoded, expected at most {self._max_seconds:g} s",
                self.seconds / self._rate,  # one after the other, and none has room before it ends
            )
        self.seconds += seconds
        try:
            yield
        finally:
            self.seconds -= seconds
