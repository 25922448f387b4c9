"""/healthz: whether the model recognises. A second of noise goes through the queue and the worker.

Behind a long batch it has to wait: the worker is then busy and not stalled, until that batch has taken four
times what its audio takes at the measured rate (batching.Batcher.is_busy).
"""

from __future__ import annotations

import asyncio
import time
from typing import Optional

from starlette import requests, responses

from estimator_asr.server import items, service

_SECONDS = 4.5  # so that the response is there within five
_SHARED_SECONDS = 1.0


class Health:
    """Requests within a second share one inference, so that many of them do not hold up others."""

    def __init__(self, parts: service.Service):
        self._parts = parts
        self._probe: Optional[asyncio.Task] = None
        self._began = 0.0

    async def show_health(self, _: requests.Request) -> responses.Response:
        """Returns 200 with the version, also while a long batch is recognised, or 503 with a sentence."""
        if self._probe is None or self._is_old():
            self._probe, self._began = asyncio.create_task(self._recognise()), time.monotonic()
        try:
            version = await asyncio.shield(self._probe)
        except asyncio.TimeoutError:
            if self._parts.batcher.is_busy:
                return responses.JSONResponse(
                    {"status": "busy", "version": self._parts.versions.current.number}
                )
            problem = f"has not recognised a second of audio in {_SECONDS:g} s"
        except Exception as error:
            problem = f"cannot recognise a second of audio ({str(error)[:200]})"
        else:
            return responses.JSONResponse({"status": "ok", "version": version})
        message = f"worker: {problem}; restart the server"
        return responses.JSONResponse({"status": "failed", "error": message}, 503)

    def _is_old(self) -> bool:
        return self._probe.done() and time.monotonic() - self._began >= _SHARED_SECONDS

    async def _recognise(self) -> str:
        version = self._parts.versions.current
        probe = items.Item(items.Group(version, "waveform"), version.make_probe(), seconds=1.0)
        await asyncio.wait_for(self._parts.batcher.recognise([probe], is_urgent=True), _SECONDS)
        return version.number
