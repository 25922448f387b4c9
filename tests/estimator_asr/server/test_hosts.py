"""The hosts that requests may name."""

from __future__ import annotations

import contextlib
import socket

import pytest

from estimator_asr.server import hosts, running

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
