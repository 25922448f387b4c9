import os
import random
import re
import shutil
import socket

import loopback_server
import paths
import pytest

from tfrecord_builder import errors
from tfrecord_builder.corpora.downloading import fetch

ROOT = str(paths.ROOT)
SIZE = 1_000_000
CONTENT = random.Random(1).randbytes(SIZE)
KEPT = 300_000
THE_REST = f"bytes={KEPT}-"
HELLO = "5d41402abc4b2a76b9719d911017c592"  # RFC 1321's MD5 of "hello"


@pytest.fixture(autouse=True)
def quick_attempts_without_a_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(fetch, "_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(fetch, "_PAUSES_SECONDS", (0.01, 0.02))


@pytest.fixture
def server():
    with loopback_server.serve({"/a.tgz": CONTENT}) as server:
        yield server


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.tgz.incomplete")


def run(server, path, expected_bytes=SIZE):
    fetch.fetch(server.address("/a.tgz"), path, expected_bytes)


def read(path):
    with open(path, "rb") as file:
        return file.read()


@pytest.fixture
def begun(path):
    """A partial download, such as a closed connection leaves."""
    with open(path, "wb") as file:
        file.write(CONTENT[:KEPT])
    return path


def error_of(server, path, expected_bytes=SIZE):
    with pytest.raises(errors.UserError) as caught:
        run(server, path, expected_bytes)
    return str(caught.value)


def test_downloads_a_file(server, path):
    server.answer = loopback_server.ignore_ranges
    run(server, path)
    assert read(path) == CONTENT
    assert server.asked[0]["Accept-Encoding"] == "identity" and "Range" not in server.asked[0]


def test_follows_redirects_with_the_range(server, begun):
    with loopback_server.serve({"/from": b""}) as front:
        front.script = [loopback_server.redirect(server.address("/a.tgz"))]
        fetch.fetch(front.address("/from"), begun, SIZE)
    assert read(begun) == CONTENT
    assert server.asked[0]["Range"] == THE_REST


def test_continues_after_a_closed_connection(server, path):
    server.script = [loopback_server.break_off(KEPT), loopback_server.break_off(KEPT)]
    run(server, path)
    assert read(path) == CONTENT
    assert [asked.get("Range") for asked in server.asked] == [None, THE_REST, "bytes=600000-"]


def test_the_next_call_continues(server, path):
    server.script = [loopback_server.break_off(KEPT)] + [loopback_server.status(503)] * 2
    assert error_of(server, path) == (
        f"{server.address('/a.tgz')}: the download stopped at 300,000 of about 1,000,000 bytes (the server "
        "returned status 503 (Service Unavailable)); run the command again to continue."
    )
    run(server, path)
    assert read(path) == CONTENT
    assert server.asked[-1]["Range"] == THE_REST


def test_an_attempt_that_received_many_bytes_resets_the_pauses(server, path, monkeypatch):
    monkeypatch.setattr(fetch, "_RESET_BYTES", 100_000)
    server.answer = loopback_server.break_off(200_000)
    run(server, path)
    assert read(path) == CONTENT and len(server.asked) == 5


def test_attempts_that_receive_nothing_are_limited(server, path):
    """urllib3 reports an incomplete read only from release 2 on."""
    server.answer = loopback_server.break_off(0)
    why = r"IncompleteRead\(0 bytes read, 1000000 more expected\)|the connection was closed"
    assert re.search(rf"stopped at 0 of about 1,000,000 bytes \(({why})\)", error_of(server, path))
    assert len(server.asked) == 3


def test_a_server_without_ranges_sends_the_whole_file_again(server, begun):
    server.answer = loopback_server.ignore_ranges
    run(server, begun)
    assert read(begun) == CONTENT


@pytest.mark.parametrize(
    "target, reason",
    [
        ("file:///etc/passwd", "No connection adapters were found for 'file:///etc/passwd'"),
        ("ftp://example.com/a.tgz", "No connection adapters were found for 'ftp://example.com/a.tgz'"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("/a.tgz", "Exceeded 30 redirects."),
    ],
)
def test_a_redirect_that_leads_nowhere_is_refused_at_once(server, path, target, reason):
    server.answer = loopback_server.redirect(target)
    message = error_of(server, path)
    assert message.startswith(f"{server.address('/a.tgz')}: the server returned a redirect that cannot be")
    assert message.endswith("open the address in a browser to see why, or pass another --mirror.")
    assert reason in message
    assert len(server.asked) == (31 if target == "/a.tgz" else 1)


def test_a_complete_file_is_not_downloaded_again(server, path):
    server.script = [loopback_server.without_length()]
    run(server, path)
    run(server, path)
    assert read(path) == CONTENT and server.asked[1]["Range"] == "bytes=1000000-"


def test_a_response_without_length_that_ends_early_is_continued(server, path):
    server.script = [loopback_server.without_length(KEPT)]
    run(server, path)
    assert read(path) == CONTENT and server.asked[1]["Range"] == THE_REST


def sign_in(handler, content):
    handler.head(200, Content_Type="text/HTML; charset=utf-8")
    handler.wfile.write(b"<html>Sign in</html>")


WRONG_RANGES = ("bytes 0-999999/1000000", "bytes 300000-999999/*", "all of it")


@pytest.mark.parametrize(
    "answer, problem",
    [
        (loopback_server.claim(3_021), "3,021 bytes, expected about 1,000,000"),
        (loopback_server.claim(2_000_000), "2,000,000 bytes, expected about 1,000,000"),
        (sign_in, "a page (text/html), expected the archive"),
        *(
            (loopback_server.range_header(text), f"Content-Range {text!r}, expected bytes 300000-")
            for text in WRONG_RANGES
        ),
    ],
)
def test_an_unexpected_response_overwrites_nothing(server, begun, answer, problem):
    server.answer = answer
    assert f"the server returned {problem}; open the address" in error_of(server, begun)
    assert read(begun) == CONTENT[:KEPT] and len(server.asked) == 1


def test_a_response_that_does_not_end(server, path):
    def pour(handler, content):
        handler.head(200)
        while not handler.server.ended.is_set():
            handler.wfile.write(content)

    server.answer = pour
    assert "bytes or more, expected 1,000,000; open" in error_of(server, path)
    assert os.path.getsize(path) <= 1_100_000


def test_a_refusal_is_not_retried(server, path):
    server.answer = loopback_server.status(403)
    assert error_of(server, path) == (
        f"{server.address('/a.tgz')}: the server returned status 403 (Forbidden), expected the archive; "
        "open the address in a browser to see why, or pass another --mirror."
    )
    assert len(server.asked) == 1


def test_a_busy_server_is_asked_again(server, path):
    server.script = [loopback_server.status(500), loopback_server.status(429)]
    run(server, path)
    assert read(path) == CONTENT and len(server.asked) == 3


def test_a_server_that_stops_sending(server, path, monkeypatch):
    def stall(handler, content):
        handler.head(200, Content_Length=len(content))
        handler.wfile.write(content[:KEPT])
        handler.wfile.flush()
        loopback_server.hang(handler, content)

    server.script = [stall]
    # The last chunk of 65,536 bytes is incomplete, and is lost.
    monkeypatch.setattr(fetch, "_PAUSES_SECONDS", ())
    assert "stopped at 262,144 of about 1,000,000 bytes (timed out)" in error_of(server, path)


def test_a_refused_connection(path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/a.tgz"
        message = r"stopped at 0 of about 10 bytes \(Connection refused\); run"
        with pytest.raises(errors.UserError, match=message):
            fetch.fetch(address, path, 10)


def test_not_enough_space(server, path):
    server.answer = loopback_server.claim(10**18)
    message = error_of(server, path, expected_bytes=10**18)
    needed = "1,000,000,000,000,000,000, and unpacking needs twice as much; free"
    assert re.search(f"free disk space is .* bytes, but the download needs {needed}", message)
    assert not os.path.exists(path)


def test_space_for_the_missing_bytes_is_enough(server, begun, monkeypatch):
    usage = shutil.disk_usage(os.path.dirname(begun))
    monkeypatch.setattr(shutil, "disk_usage", lambda directory: usage._replace(free=SIZE - KEPT))
    run(server, begun)
    assert read(begun) == CONTENT


def test_a_file_is_renamed_only_if_it_has_another_md5_sum(tmp_path):
    (tmp_path / "a").write_bytes(b"hello")
    fetch.check_md5(str(tmp_path / "a"), HELLO)
    (tmp_path / "a").write_bytes(b"hallo")
    message = f"a.wrong: MD5 sum is 598d4c200461b81522a3328565c25f7c, expected {HELLO}; the download was kept"
    with pytest.raises(errors.UserError, match=f"{message} under this name. Run"):
        fetch.check_md5(str(tmp_path / "a"), HELLO)
    assert os.listdir(tmp_path) == ["a.wrong"]
