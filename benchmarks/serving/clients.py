"""Clients for the server's benchmark: each client sends its next request when the response arrives."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from benchmarks.serving import clips as serving_clips

_PATH = "/v1/models/asr:predict"
_TIMEOUT = 60.0


class Load(NamedTuple):
    """The seconds of each correct response, the number of errors, and the total seconds."""

    request_seconds: np.ndarray
    num_errors: int
    seconds: float

    @property
    def requests_per_second(self) -> float:
        return len(self.request_seconds) / self.seconds

    def percentile(self, percent: float) -> float:
        """Returns seconds; Inf if no request was answered."""
        return float(np.percentile(self.request_seconds, percent)) if len(self.request_seconds) else np.inf


def read_texts(address: tuple[str, int], clips: Sequence[serving_clips.Clip]) -> list[Optional[str]]:
    """Returns the transcript of each clip when sent alone; None if the server refuses the clip."""
    client = _Client(address)
    return [client.ask(_make_body(clip)) for clip in clips]


def send(
    address: tuple[str, int],
    clips: Sequence[serving_clips.Clip],
    texts: Sequence[str],
    num_clients: int,
    seconds: float,
) -> Load:
    """Runs clients that send clips for some seconds; each client begins one clip after the previous one."""
    bodies, found, num_errors = [_make_body(clip) for clip in clips], [], []
    started = time.perf_counter()

    def work(number: int) -> None:
        client = _Client(address)
        while time.perf_counter() < started + seconds:
            began, index = time.perf_counter(), number % len(bodies)
            text, number = client.ask(bodies[index]), number + 1
            is_right = text is not None and text == texts[index]
            (found if is_right else num_errors).append(time.perf_counter() - began)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(num_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Load(np.array(found), len(num_errors), time.perf_counter() - started)


def _make_body(clip: serving_clips.Clip) -> bytes:
    return json.dumps({"instances": [{"b64": base64.b64encode(clip.content).decode()}]}).encode()


class _Client:
    def __init__(self, address: tuple[str, int]):
        self._connection = http.client.HTTPConnection(*address, timeout=_TIMEOUT)

    def ask(self, body: bytes) -> Optional[str]:
        """Returns the transcript, or None if any error occurs."""
        try:
            self._connection.request("POST", _PATH, body, {"content-type": "application/json"})
            response = self._connection.getresponse()
            content = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            self._connection.close()
            return None
        return content["predictions"][0]["transcript"] if response.status == 200 else None
