"""The names of this machine that a server accepts if no other machine can reach it."""

import contextlib
import socket

import pytest

from estimator_asr.serving.server import running

LOCAL = ("localhost", "127.0.0.1", "[::1]")


@pytest.mark.parametrize(
    "host, names",
    [
        ("127.0.0.1", LOCAL),
        ("localhost", LOCAL),
        ("LOCALHOST", LOCAL),
        ("127.0.0.2", (*LOCAL, "127.0.0.2")),
        ("0.0.0.0", None),
    ],
)
def test_only_loopback_addresses_have_local_host_names(host, names):
    with contextlib.closing(running.bind(host, 0)) as bound:
        assert running.list_local_hosts(host, bound) == names


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_ipv6_addresses_are_in_brackets():
    class Bound:
        def getsockname(self):
            return "::1", 8501, 0, 0

    assert running.list_local_hosts("::1", Bound()) == LOCAL
    assert running.list_local_hosts("0:0:0:0:0:0:0:1", Bound()) == (*LOCAL, "[0:0:0:0:0:0:0:1]")
