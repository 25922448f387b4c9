"""Connections that keep the server waiting, beside honest ones; the application is a stub."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest
import requests
import uvicorn
from starlette import applications, responses, routing
from starlette import requests as requests_of_starlette

from estimator_asr.server import connections, metrics, running

HEAD = b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n"
SLOW = 200
LIMIT = 50


async def show_length(request):
    try:
        return responses.PlainTextResponse(str(len(await request.body())))
    except requests_of_starlette.ClientDisconnect:
        return responses.Response()


async def show_large(_):
    return responses.Response(b"x" * (64 << 20))


async def stall(_):
    time.sleep(0.5)  # noqa: ASYNC251  nothing is accepted or read meanwhile
    return responses.Response()


class Application:
    """Answers with the length of the body, with 64 MiB, or when `may_answer` is set."""

    def __init__(self):
        self.may_answer, self.metrics = threading.Event(), metrics.Metrics()
        routes = [
            routing.Route("/length", show_length, methods=["POST"]),
            routing.Route("/large", show_large),
            routing.Route("/stall", stall),
            routing.Route("/wait", self.wait),
        ]
        self.app = applications.Starlette(routes=routes)

    def wait(self, _):  # in a thread of Starlette
        self.may_answer.wait(20)
        return responses.PlainTextResponse("done")


@contextlib.contextmanager
def serve(max_connections):
    application = Application()
    bound = running.bind("127.0.0.1", 0)
    server = uvicorn.Server(running.make_config(application.app, application.metrics, max_connections, 1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield application, server, bound.getsockname()[1]
    finally:
        application.may_answer.set()
        server.should_exit = True
        thread.join(30)


@contextlib.contextmanager
def send_all(port, requests_):
    """Opens a connection for each request; those that the server closes meanwhile do not count."""
    with contextlib.ExitStack() as stack:
        opened = []
        for each in requests_:
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10)))
            with contextlib.suppress(OSError):
                opened[-1].sendall(each)
        yield opened


def ask(port, content=b"x" * 5):
    return requests.post(f"http://127.0.0.1:{port}/length", data=content, timeout=10)


def wait_for(predicate, seconds=10):
    end = time.monotonic() + seconds
    while not predicate():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_honest_clients_beside_slow_bodies():
    """They take 30 s for a body, so that they would hold each of the connections for so long."""
    with serve(LIMIT) as (_, server, port), send_all(port, [HEAD + b"x"] * SLOW):
        wait_for(lambda: len(server.server_state.connections) == LIMIT)
        started = time.monotonic()
        assert [ask(port).text for _ in range(20)] == ["5"] * 20
        assert time.monotonic() - started < 5


def test_a_request_that_waits_to_be_read_does_not_give_way():
    """All connections come at one moment, as after a pause of the machine; it is the oldest of them."""
    request = HEAD.replace(b"content-length: 1000", b"connection: close\r\ncontent-length: 1") + b"x"
    with serve(LIMIT) as (_, server, port), send_all(port, [b"GET /stall HTTP/1.1\r\nhost: x\r\n\r\n"]):
        time.sleep(0.1)
        with send_all(port, [request] + [HEAD + b"x"] * (LIMIT + 10)) as opened:
            assert opened[0].makefile("rb").read().endswith(b"\r\n\r\n1")
            wait_for(lambda: len(server.server_state.connections) <= LIMIT)


def test_a_body_that_keeps_coming_does_not_give_way():
    """The server has read its first part; until then it is the one that keeps the server waiting longest."""
    part = b"x" * 50_000
    head = b"POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 400000\r\nconnection: close\r\n\r\n"
    with serve(LIMIT) as (_, server, port), send_all(port, [head + part]) as (upload,):
        wait_for(lambda: server.server_state.tasks)
        with send_all(port, [HEAD + b"x"] * LIMIT):
            for _ in range(7):
                time.sleep(0.05)
                assert ask(port).text == "5"
                upload.sendall(part)
        assert upload.makefile("rb").read().endswith(b"\r\n\r\n400000")


def test_a_response_that_is_never_read_is_given_up(monkeypatch):
    monkeypatch.setattr(connections, "WRITE_SECONDS", 0.3)
    request = b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with serve(LIMIT) as (_, server, port), send_all(port, [request] * 3):
        wait_for(lambda: server.server_state.total_requests == 3)
        wait_for(lambda: not server.server_state.connections, 3)


def test_a_response_that_is_read_slowly_arrives(monkeypatch):
    """It takes longer than the next request may take to come."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    with (
        serve(LIMIT) as (_, _, port),
        send_all(port, [b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n"]) as (opened,),
    ):
        num_bytes = 0
        time.sleep(0.5)
        while num_bytes < 64 << 20:
            received = opened.recv(1 << 20)
            assert received
            num_bytes += len(received)


def test_clients_that_do_not_read_give_way():
    request = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n"
    with serve(3) as (application, server, port), send_all(port, [request] * 3):
        wait_for(lambda: server.server_state.total_requests == 3)
        time.sleep(0.2)
        assert ask(port).text == "5"
    assert b"asr_connections_evicted_total 1.0" in application.metrics.format()


def test_too_many_busy_connections_are_refused_in_a_sentence():
    with (
        serve(2) as (application, _, port),
        send_all(port, [b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"] * 2) as busy,
    ):
        time.sleep(0.3)
        response = ask(port)
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert response.json() == {
            "error": "server: has more connections than 2; send the request again in 1 s"
        }
        assert len(response.headers["x-request-id"]) == 32
        application.may_answer.set()
        assert all(each.recv(100).startswith(b"HTTP/1.1 200 ") for each in busy)
    assert b'asr_requests_total{route="other",status="503"} 1.0' in application.metrics.format()
    assert b"asr_connections_evicted_total 0.0" in application.metrics.format()


def test_a_connection_that_was_refused_has_no_place_to_give():
    with serve(2) as (_, _, port), send_all(port, [b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n"] * 2):
        time.sleep(0.3)
        with send_all(port, [b""]):
            time.sleep(0.1)
            assert [ask(port).status_code for _ in range(3)] == [503] * 3


@pytest.mark.parametrize("sent", [b"", b"GET /large HTTP/1.1\r\n"])
def test_headers_have_a_deadline(monkeypatch, sent):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    with serve(2) as (_, _, port), send_all(port, [sent]) as (opened,):
        assert opened.recv(100) == b""
