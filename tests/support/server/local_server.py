"""The server in a thread of the test's process, on a free port of 127.0.0.1.

with local_server.serve(export_dir, max_queue_seconds=1.0) as server:
    server.get("/v1/models/asr").json()
    server.parts  # the service.Service, which tests can inspect
"""

import contextlib
import dataclasses
import threading
import time

import requests

from estimator_asr.serving.server import app, limits, running, service


@dataclasses.dataclass
class LocalServer:
    parts: service.Service
    port: int
    session: requests.Session

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def get(self, path, **arguments):
        return self.session.get(self.url(path), timeout=60, **arguments)

    def post(self, path, **arguments):
        return self.session.post(self.url(path), timeout=60, **arguments)

    def predict(self, content, path="/v1/models/asr:predict"):
        return self.post(path, json=content)


@contextlib.contextmanager
def serve(saved_model, token=None, max_connections=50, stop_seconds=5, **changes):
    settings = limits.Limits(stop_seconds=stop_seconds, max_connections=max_connections, **changes)
    parts = service.Service(str(saved_model), settings)
    bound = running.bind("127.0.0.1", 0)
    server = running.Server(app.build(parts, token), settings, lambda: None)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    port = bound.getsockname()[1]
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield LocalServer(parts, port, requests.Session())
    finally:
        server.should_exit = True
        thread.join(30)
