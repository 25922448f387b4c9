"""Decodes uploads in threads: what is being decoded, and what waits for it, is limited in seconds of audio.

A silent FLAC may grow a thousandfold.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from estimator_asr.server import api_errors, uploads, worker

_THREADS = 2
_FIRST_RATE = 50.0  # seconds of audio per second, before any is measured
_RATE_MEMORY = 0.8  # of the moving average
_SMALL_BYTES = 1 << 20  # whose header is read in a few milliseconds


class Decoder:
    """Decodes uploads.

    Attributes:
        seconds: of audio by the headers, that are being decoded or wait for it.
    """

    def __init__(self, max_seconds: float, max_upload_seconds: float):
        """`max_seconds` are those of all uploads together, `max_upload_seconds` those of one."""
        self._max_seconds, self._max_upload_seconds = max_seconds, max_upload_seconds
        self._headers, self._decoders = worker.Worker(1), worker.Worker(_THREADS)
        self._rate, self.seconds = _FIRST_RATE, 0.0

    async def decode(self, content: bytes, sample_rate: int) -> uploads.Upload:
        """Returns the recording at a sample rate in Hz; see uploads.read.

        Raises:
            api_errors.ApiError: too much is being decoded. One recording of any length is accepted if there
                is no other.
            errors.UserError: it cannot be used.
        """
        arguments = (content, sample_rate, self._max_upload_seconds)
        seconds = await self._measure(*arguments)
        with self._hold(seconds):
            started = time.monotonic()
            upload = await self._decoders.call(uploads.read, *arguments)
            rate = upload.seconds / max(time.monotonic() - started, 1e-3)
            self._rate = _RATE_MEMORY * self._rate + (1 - _RATE_MEMORY) * rate
            return upload

    async def _measure(self, content: bytes, *arguments) -> float:
        if len(content) <= _SMALL_BYTES:
            return uploads.measure(content, *arguments)
        return await self._headers.call(uploads.measure, content, *arguments)

    @contextlib.contextmanager
    def _hold(self, seconds: float) -> Iterator[None]:
        excess = self.seconds + seconds - self._max_seconds
        if self.seconds and excess > 0:
            raise api_errors.overloaded(
                f"{self.seconds:.0f} s of audio are being decoded, expected at most {self._max_seconds:g} s",
                min(excess, self.seconds) / self._rate,
            )
        self.seconds += seconds
        try:
            yield
        finally:
            self.seconds -= seconds
