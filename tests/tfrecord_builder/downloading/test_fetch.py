import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

import loopback_server
import paths
import pytest

from tfrecord_builder import errors
from tfrecord_builder.downloading import fetch, sidecar

ROOT = str(paths.ROOT)
SIZE = 1_000_000
CONTENT = random.Random(1).randbytes(SIZE)
QUICK = fetch.Patience(timeout_seconds=0.3, pauses_seconds=(0.01, 0.02))
KEPT = 300_000
THE_REST = f"bytes={KEPT}-"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server():
    with loopback_server.serve({"/a.tgz": CONTENT}) as server:
        yield server


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.tgz.incomplete")


def run(server, path, about_bytes=SIZE, patience=QUICK):
    fetch.fetch(server.address("/a.tgz"), path, about_bytes, patience)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def begin(server, path):
    """Leaves a part of the file, as after a call whose connection broke off."""
    server.script = [loopback_server.break_off(KEPT)]
    with pytest.raises(errors.UserError):
        run(server, path, patience=fetch.Patience(0.3, ()))
    server.asked.clear()


def fails(server, path, patience=QUICK, about_bytes=SIZE):
    with pytest.raises(errors.UserError) as caught:
        run(server, path, about_bytes, patience)
    return str(caught.value)


def test_gives_the_file(server, path):
    run(server, path)
    assert read(path) == CONTENT
    assert server.asked[0]["Accept-Encoding"] == "identity" and "Range" not in server.asked[0]


def test_a_file_packed_for_the_road_stays_as_it_is(server, path):
    server.answer = loopback_server.serve_with(Content_Encoding="x-gzip")  # Apache says so of every .tgz
    run(server, path)
    assert read(path) == CONTENT


def test_follows_redirects_with_the_range(server, path):
    begin(server, path)
    with loopback_server.serve({"/from": b""}) as front:
        front.script = [loopback_server.redirect(server.address("/a.tgz"))]
        fetch.fetch(front.address("/from"), path, SIZE, QUICK)
    assert read(path) == CONTENT
    assert server.asked[0]["Range"] == THE_REST


def test_goes_on_where_the_connection_broke_off(server, path):
    server.script = [loopback_server.break_off(KEPT), loopback_server.break_off(KEPT)]
    run(server, path)
    assert read(path) == CONTENT
    assert [asked.get("Range") for asked in server.asked] == [None, THE_REST, "bytes=600000-"]
    assert server.asked[1]["If-Range"] == loopback_server.etag(CONTENT)


def test_says_where_the_next_call_goes_on(server, path):
    server.script = [loopback_server.break_off(KEPT)] + [loopback_server.status(503)] * 2
    assert fails(server, path) == (
        f"{server.address('/a.tgz')}: the download ends at 300,000 bytes (the server answers 503 (Service "
        "Unavailable)), expected all of it; call again, it goes on at 300,000 bytes."
    )
    run(server, path)
    assert read(path) == CONTENT
    assert server.asked[-1]["Range"] == THE_REST


def test_pauses_begin_anew_after_an_attempt_that_brought_much(server, path, monkeypatch):
    monkeypatch.setattr(fetch, "_NO_FAILURE_BYTES", 100_000)
    server.answer = loopback_server.break_off(200_000)
    run(server, path)
    assert read(path) == CONTENT and len(server.asked) == 5


def test_an_attempt_that_brings_nothing_is_one_of_few(server, path):
    server.answer = loopback_server.break_off(0)
    assert "ends at 0 bytes (the connection broke off)" in fails(server, path)
    assert len(server.asked) == 3


def test_a_file_that_changed_starts_afresh(server, path):
    begin(server, path)
    server.contents["/a.tgz"] = changed = CONTENT[::-1]
    run(server, path)
    assert read(path) == changed and len(server.asked) == 1


def test_a_server_that_knows_no_ranges_starts_afresh(server, path):
    begin(server, path)
    server.answer = loopback_server.ignore_ranges
    run(server, path)
    assert read(path) == CONTENT


def test_a_weak_etag_is_no_condition_but_a_date_is(server, path):
    server.script = [loopback_server.serve_with(ETag='W/"1"', Last_Modified=loopback_server.DATE)]
    run(server, path)
    assert sidecar.load(path) == sidecar.Origin(server.address("/a.tgz"), loopback_server.DATE, SIZE)
    os.truncate(path, 500_000)
    run(server, path)
    assert server.asked[1]["If-Range"] == loopback_server.DATE and read(path) == CONTENT


def test_another_mirror_goes_on_without_the_mark_of_the_first(server, path):
    begin(server, path)
    with loopback_server.serve({"/b.tgz": CONTENT}) as mirror:
        fetch.fetch(mirror.address("/b.tgz"), path, SIZE, QUICK)
    assert mirror.asked[0]["Range"] == THE_REST and "If-Range" not in mirror.asked[0]
    assert read(path) == CONTENT


def test_a_whole_file_is_not_asked_for_again(server, path):
    run(server, path)
    run(server, path)
    assert len(server.asked) == 1


def test_a_whole_file_of_unknown_length_is_asked_for_its_end(server, path):
    server.script = [loopback_server.without_length()]
    run(server, path)
    run(server, path)
    assert read(path) == CONTENT and server.asked[1]["Range"] == "bytes=1000000-"


def test_a_connection_without_length_that_ends_early_is_gone_on_with(server, path):
    server.script = [loopback_server.without_length(KEPT)]
    run(server, path)
    assert read(path) == CONTENT and server.asked[1]["Range"] == THE_REST


def test_notes_that_a_crash_cut_off_are_none(server, path):
    begin(server, path)
    with open(f"{path}.json", "w") as file:
        file.write('{"addr')
    run(server, path)
    assert read(path) == CONTENT and "If-Range" not in server.asked[0]
    sidecar.forget(path)
    sidecar.forget(path)
    assert os.listdir(os.path.dirname(path)) == ["a.tgz.incomplete"]


def test_more_promised_than_there_is(server, path):
    server.script = [loopback_server.claim(1_000_100)]  # within what the size may be off
    assert "sends no byte after 1,000,000, expected 1,000,100 as it said before" in fails(server, path)
    server.answer = loopback_server.claim(1_000_100)
    os.remove(path)
    assert "ends at 1,000,000 bytes (the connection broke off)" in fails(server, path)


def test_less_promised_than_there_is_shows_in_the_length(server, path):
    server.answer = loopback_server.claim(999_900)
    run(server, path)  # the checksum is the judge of this
    assert read(path) == CONTENT[:999_900]


@pytest.mark.parametrize("num_bytes", [3_021, 2_000_000])
def test_an_answer_of_another_size_overwrites_nothing(server, path, num_bytes):
    begin(server, path)
    server.answer = loopback_server.claim(num_bytes)
    message = fails(server, path)
    assert f"the server offers {num_bytes:,} bytes, expected about 1,000,000; open" in message
    assert read(path) == CONTENT[:KEPT]


def test_a_page_without_length_overwrites_nothing(server, path):
    def sign_in(handler, content):
        handler.head(200, Content_Type="text/HTML; charset=utf-8")
        handler.wfile.write(b"<html>Sign in</html>")

    begin(server, path)
    server.answer = sign_in
    asked = len(server.asked)
    message = fails(server, path)
    assert "the server sends a page (text/html), expected the archive; open the address in a" in message
    assert read(path) == CONTENT[:KEPT] and len(server.asked) == asked + 1


@pytest.mark.parametrize(
    "text",
    [
        "bytes 0-999999/1000000",  # another start
        "bytes 300000-999999/1000001",  # another length
        "bytes 300000-499999/1000000",  # less than the rest
        "bytes 300000-1000000/1000001",  # another length than it said before
        "bytes 300000-999999/*",
        "all of it",
    ],
)
def test_a_wrong_content_range(server, path, text):
    begin(server, path)
    server.answer = loopback_server.range_header(text)
    message = fails(server, path)
    assert f"the server sends the Content-Range {text!r}, expected bytes 300000- of 1000000; pass" in message
    assert read(path) == CONTENT[:KEPT]


def test_more_bytes_than_the_range(server, path):
    begin(server, path)
    server.answer = loopback_server.range_header("bytes 300000-999999/1000000", length=900_000)
    assert "the server sends more than 1,000,000 bytes, expected as many as it said" in fails(server, path)


def test_a_body_without_length_that_does_not_end(server, path):
    def pour(handler, content):
        handler.head(200)
        while not handler.server.ended.is_set():
            handler.wfile.write(content)

    server.answer = pour
    assert "the server sends more than 1,010,000 bytes, expected about 1,000,000; pass" in fails(server, path)
    assert os.path.getsize(path) <= 1_010_000


@pytest.mark.parametrize("code, text", [(404, "404 (Not Found)"), (403, "403 (Forbidden)"), (204, "204 (No")])
def test_a_refusal_ends_it_at_once(server, path, code, text):
    server.answer = loopback_server.status(code)
    message = fails(server, path)
    assert f"{server.address('/a.tgz')}: the server answers {text}" in message
    assert "expected the archive; open the address in a browser to see why, or pass another --mirr" in message
    assert len(server.asked) == 1


def test_a_server_in_trouble_is_asked_again(server, path):
    server.script = [loopback_server.status(500), loopback_server.status(429)]
    run(server, path)
    assert read(path) == CONTENT and len(server.asked) == 3
    os.remove(path)
    server.answer = loopback_server.status(500)
    assert "(the server answers 500 (Internal Server Error)), expected all of it" in fails(server, path)


def test_a_server_that_says_nothing(server, path):
    server.answer = loopback_server.hang
    started = time.monotonic()
    assert "ends at 0 bytes (no answer for 0.1 s)" in fails(server, path, fetch.Patience(0.1, (0.01,)))
    assert time.monotonic() - started < 5


def test_a_server_that_falls_silent_in_the_middle(server, path):
    def fall_silent(handler, content):
        handler.head(200, Content_Length=len(content), ETag=loopback_server.etag(content))
        handler.wfile.write(content[:KEPT])
        handler.wfile.flush()
        loopback_server.hang(handler, content)

    server.script = [fall_silent]
    # What comes is written in parts of 65,536 bytes; the one that was under way is lost.
    assert "ends at 262,144 bytes (no answer for 0.2 s)" in fails(server, path, fetch.Patience(0.2, ()))


def test_nobody_there(path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/a.tgz"
        with pytest.raises(errors.UserError, match=r"ends at 0 bytes \(Connection refused\), expected all"):
            fetch.fetch(address, path, 10, QUICK)


def test_a_server_that_sends_us_round_in_circles(server, path):
    server.answer = loopback_server.redirect("/a.tgz")
    assert "(Exceeded 30 redirects.)" in fails(server, path, fetch.Patience(1, ()))


def test_a_server_that_sends_us_to_no_address(server, path):
    server.answer = loopback_server.redirect("http://[::1/a.tgz")
    assert "ends at 0 bytes (Invalid IPv6 URL), expected all of it" in fails(server, path)


def test_a_length_that_is_no_number(server, path):
    server.script = [loopback_server.claim("\xb2")]  # a digit to Python, in Latin-1
    run(server, path)
    assert read(path) == CONTENT


def test_no_room(server, path):
    server.answer = loopback_server.claim(10**18)
    message = fails(server, path, about_bytes=10**18)
    assert "bytes are free on its disk, expected 1,000,000,000,000,000,000, and twice that to" in message
    assert not os.path.exists(path)


def test_room_for_the_rest_is_enough(server, path, monkeypatch):
    begin(server, path)
    usage = shutil.disk_usage(os.path.dirname(path))
    monkeypatch.setattr(shutil, "disk_usage", lambda directory: usage._replace(free=SIZE - KEPT))
    run(server, path)
    assert read(path) == CONTENT


def test_a_full_disk(server, path):
    os.symlink("/dev/full", path)
    with pytest.raises(OSError, match="No space left on device"):
        run(server, path)


FETCH = """
import sys
from tfrecord_builder.downloading import fetch
fetch.fetch(sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


def test_a_killed_download_goes_on(server, path):
    server.script = [loopback_server.drip(50_000, 0.05)]
    command = [sys.executable, "-c", FETCH, server.address("/a.tgz"), path, str(SIZE)]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": ROOT})
    deadline = time.monotonic() + 60
    while not (os.path.exists(path) and os.path.getsize(path)) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    kept = os.path.getsize(path)
    assert 0 < kept < SIZE
    run(server, path)
    assert read(path) == CONTENT
    assert server.asked[1]["Range"] == f"bytes={kept}-"
