"""Hostile requests to a server process, while an honest client sends valid requests.

NUM_HOSTILE_REQUESTS=10000 pytest tests/estimator_asr/serving/server/test_hostile.py
"""

import collections
import concurrent.futures
import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import threading
import time

import hostile_requests
import numpy as np
import pytest
import requests
import served
from websockets import exceptions
from websockets.sync import client as websocket_client

from benchmarks.serving import process as serving_process

NUM_REQUESTS = int(os.environ.get("NUM_HOSTILE_REQUESTS", "1000"))
NUM_CONNECTIONS = 1000
NUM_COSTLY = 12
MAX_WAIT_SECONDS = 15.0  # until a batch of 16 items of 24 s has ended, on cores that the clients also use
MAX_GROWTH_MB = 600
PREDICT = "/v1/models/asr:predict"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program(tiny_export):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * NUM_CONNECTIONS:  # the server inherits the limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * NUM_CONNECTIONS), hard))
    with served.Served(tiny_export.export_dir, "--max_audio_seconds=60") as started:
        requests.get(f"{started.url}/healthz", timeout=60).raise_for_status()
        yield started
        code, said = started.stop(signal.SIGTERM)
        assert code == 0
        assert "Traceback" not in said, said[said.index("Traceback") :][:5000]


class Honest:
    """A client that sends the same utterance again and again; `found` has the responses."""

    def __init__(self, url):
        noise = np.random.default_rng(1).normal(0, 0.1, 16000).round(4).tolist()
        content = {"signature_name": "waveform", "instances": [{"waveform": noise, "num_samples": 16000}]}
        self._send = lambda: requests.post(f"{url}{PREDICT}", json=content, timeout=60)
        self._is_over = threading.Event()
        self.expected = self._read(self._send())
        self.found, self.waits = [], []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _run(self):
        while not self._is_over.wait(0.05):
            started = time.monotonic()
            try:
                self.found.append(self._read(self._send()))
            except requests.RequestException as error:
                self.found.append(repr(error))
            self.waits.append(time.monotonic() - started)

    def _read(self, response):
        if response.status_code != 200:
            return response.text
        (row,) = response.json()["predictions"]
        return row["status"], row["transcript"], row["pinyin"]


def send(port: int, kind: str, request: bytes, timeout: float = 0.3) -> str:
    """Sends a request; returns the status, or "" if none arrives in time (60 s for a complete request)."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            connection.sendall(request)
            connection.settimeout(60 if kind in hostile_requests.WHOLE else timeout)
            said = connection.recv(1000)
        except (TimeoutError, ConnectionError):
            return ""
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", said)
    assert found or not said, said[:200]
    return found[1].decode() if found else ""


def test_no_request_harms_the_server(program):
    rng = random.Random(16)
    sent = [hostile_requests.make(rng) for _ in range(NUM_REQUESTS)]
    before = serving_process.read_resident_mb(program.process.pid)
    peak, found = before, collections.defaultdict(collections.Counter)
    with Honest(program.url) as honest, concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = pool.map(lambda each: send(program.port, *each), sent)
        for (kind, request), status in zip(sent, statuses):
            found[kind][status] += 1
            assert status == "503" or not status.startswith("5"), (kind, status, request[:1000])
            peak = max(peak, serving_process.read_resident_mb(program.process.pid))
    for kind, counts in sorted(found.items()):
        print(f"{kind:16}{dict(counts)}")
    print(f"memory: {before:.0f} MB before, {peak:.0f} MB at most; {len(honest.found)} honest requests")
    assert set(honest.found) == {honest.expected}
    assert peak - before < MAX_GROWTH_MB
    assert found["valid"].keys() <= {"200", "429"}


def stream(port: int, rng: random.Random) -> str:
    """Misbehaves as a client of /v1/stream; returns the type of the last message, or "" if there is none."""
    query = rng.choice(["", "?sample_rate=48000&encoding=f32le", "?sample_rate=-1", "?encoding=s16le&x=%00"])
    messages = [
        rng.randbytes(rng.choice([0, 1, 3200, 32000, 262144, 300000])) for _ in range(rng.randint(0, 8))
    ]
    messages += rng.choice([[], ["{"], ['{"end": true}'], ['{"end": true}', b"\0\0"], ["[" * 5000]])
    last = ""
    with contextlib.suppress(exceptions.WebSocketException, OSError, TimeoutError):
        with websocket_client.connect(f"ws://127.0.0.1:{port}/v1/stream{query}", close_timeout=1) as socket:
            for each in messages:
                socket.send(each)
            if rng.random() < 0.4:
                socket.socket.close()  # without the closing handshake
            elif rng.random() < 0.2:
                time.sleep(3)  # without reading anything
            while True:
                last = json.loads(socket.recv(timeout=rng.choice([0, 0.5, 20])))["type"]
    return last


def test_no_stream_harms_the_server(program):
    before = serving_process.read_resident_mb(program.process.pid)
    with Honest(program.url) as honest, concurrent.futures.ThreadPoolExecutor(16) as pool:
        rngs = [random.Random(seed) for seed in range(max(50, NUM_REQUESTS // 10))]
        found = collections.Counter(pool.map(lambda rng: stream(program.port, rng), rngs))
    print(f"last messages: {dict(found)}; {len(honest.found)} honest requests")
    assert found["error"]
    with websocket_client.connect(f"ws://127.0.0.1:{program.port}/v1/stream") as socket:
        socket.send(bytes(32000))
        socket.send('{"end": true}')
        assert [json.loads(each)["type"] for each in socket][-1] == "final"
    assert set(honest.found) == {honest.expected}
    assert serving_process.read_resident_mb(program.process.pid) - before < MAX_GROWTH_MB


COSTLY = hostile_requests.make_costly()


@pytest.mark.parametrize("kind", COSTLY)
def test_slow_requests_do_not_delay_honest_clients(program, kind):
    """Four clients send slow requests at the same time, but must not occupy the whole server."""
    with Honest(program.url) as honest, concurrent.futures.ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(send, program.port, kind, COSTLY[kind], 120) for _ in range(NUM_COSTLY)]
        statuses = collections.Counter(each.result() for each in sending)
    waits = sorted(honest.waits)
    print(
        f"{kind}: {dict(statuses)}; {len(waits)} honest requests, median {waits[len(waits) // 2]:.2f} s, "
        f"longest {waits[-1]:.2f} s"
    )
    assert set(honest.found) == {honest.expected}
    assert waits[-1] < MAX_WAIT_SECONDS
    assert set(statuses) <= {"200", "400", "429"}


def test_a_thousand_connections_do_not_block_the_server(program):
    """Three in four connections send nothing, and the others send their bodies one byte at a time."""
    head = hostile_requests.make_post(PREDICT, b"", length=1000)
    with contextlib.ExitStack() as stack, Honest(program.url) as honest:
        opened = []
        for i in range(NUM_CONNECTIONS):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", program.port), timeout=60))
            with contextlib.suppress(OSError):
                each.sendall(head if i % 4 == 0 else b"")
            opened.append(each)
        least, most = time.monotonic() + 2, time.monotonic() + 60
        while time.monotonic() < least or (len(honest.found) < 10 and time.monotonic() < most):
            for each in opened:
                with contextlib.suppress(OSError):
                    each.sendall(b"x")
            time.sleep(0.1)
    assert len(honest.found) >= 10
    assert set(honest.found) == {honest.expected}
