"""The hosts that requests may name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest
from starlette import responses

from estimator_asr.server import hosts, middleware, running

LOCAL = ("localhost", "127.0.0.1", "[::1]")


@pytest.mark.parametrize(
    "host, token, allowed",
    [
        ("127.0.0.1", None, LOCAL),
        ("localhost", None, LOCAL),
        ("LOCALHOST", None, LOCAL),
        ("127.0.0.2", None, (*LOCAL, "127.0.0.2")),
        ("127.0.0.1", "secret", None),
        ("0.0.0.0", None, None),
    ],
)
def test_allowed_hosts(host, token, allowed):
    with contextlib.closing(running.bind(host, 0)) as bound:
        assert hosts.list_allowed(host, bound, token) == allowed


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_ipv6():
    class Bound:
        def getsockname(self):
            return "::1", 8501, 0, 0

    assert hosts.list_allowed("::1", Bound(), None) == LOCAL
    assert hosts.list_allowed("0:0:0:0:0:0:0:1", Bound(), None) == (*LOCAL, "[0:0:0:0:0:0:0:1]")


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 200),  # a program
        ({"sec-fetch-site": "same-origin", "origin": "https://proxy"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://own"}, 200),  # an older browser
        ({"origin": "http://evil"}, 403),
        ({"origin": "null"}, 403),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_pages_of_other_sites_send_nothing(method, headers, status):
    async def respond(scope, receive, send):
        await responses.Response("done")(scope, receive, send)

    async def send(message):
        sent.append(message)

    sent, raw = [], [(name.encode(), value.encode()) for name, value in {"host": "own", **headers}.items()]
    scope = {"type": "http", "method": method, "path": "/v1/audio/transcriptions", "headers": raw}
    asyncio.run(middleware.Checked(respond, [hosts.check_site])(scope, None, send))
    assert sent[0]["status"] == (status if method == "POST" else 200)
    if sent[0]["status"] == 403:
        origin = headers.get("origin", "unknown")
        expected = f"origin: is {origin!r}, expected this server's own page or no browser; "
        assert json.loads(sent[1]["body"])["error"]["message"].startswith(expected)


@pytest.mark.parametrize(
    "allowed, token, is_said", [(None, None, True), (None, "secret", False), (LOCAL, None, False)]
)
def test_a_server_that_is_open_to_all_says_so(caplog, allowed, token, is_said):
    hosts.warn_if_open("0.0.0.0", allowed, token)
    said = "--host=0.0.0.0: every machine that reaches the server can use it; pass --token_file"
    assert [record.message for record in caplog.records] == [said] * is_said
