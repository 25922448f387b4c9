"""python -m estimator_asr.serve as a process: its start, requests, signals and messages."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time

import hostile_requests
import numpy as np
import paths
import pytest
import requests
import served

from estimator_asr import serve
from estimator_asr.serving.server import running
from tfrecord_builder import errors

HANGING = """
import time
from estimator_asr import serve
from estimator_asr.serving.server import uploads

uploads.read = lambda *_: time.sleep(600)
serve.program.run(serve.main, serve.ServeConfig)
"""


@pytest.fixture(scope="module")
def content():
    noise = np.random.default_rng(1).normal(0, 0.1, 16000 * 8).round(4).tolist()
    return {"signature_name": "waveform", "instances": [{"waveform": noise, "num_samples": len(noise)}]}


@pytest.mark.long
def test_the_server_starts_recognises_and_finishes_open_requests(tiny_export, content):
    with served.Served(tiny_export.export_dir) as program:
        version = tiny_export.version_dir.rsplit("/", 1)[1]
        ready = rf"{tiny_export.version_dir}: version {version}, loaded in [\d.]+ s\n"
        assert re.fullmatch(rf"http://127\.0\.0\.1:\d+ serves {ready}", program.line)
        opened = [http.client.HTTPConnection("127.0.0.1", program.port, timeout=60) for _ in range(7)]
        for connection in opened:
            connection.request("POST", "/v1/models/asr:predict", json.dumps(content))
        # This connection is accepted last, so the server has read the headers of the others once it responds.
        assert requests.get(f"{program.url}/v1/models/asr", timeout=60).status_code == 200
        code, said = program.stop(signal.SIGTERM)
        assert f" WARNING {tiny_export.version_dir}: {served.UNREAD} and" in program.read_log()
        statuses = [connection.getresponse().status for connection in opened]
        for connection in opened:
            connection.close()
    assert (code, said) == (0, "")
    assert statuses == [200] * 7
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", program.port), timeout=1).close()


@pytest.mark.long
def test_a_server_with_a_token_refuses_requests_without_it_and_ends_on_ctrl_c(tiny_export, tmp_path):
    token_file = tmp_path / "token"
    token_file.write_text("secret\n")
    with served.Served(tiny_export.version_dir, f"--token_file={token_file}") as program:
        assert requests.get(f"{program.url}/v1/models/asr", timeout=60).status_code == 401
        headers = {"authorization": "Bearer secret", "host": "example.com"}  # with a token, any host
        assert requests.get(f"{program.url}/v1/models/asr", headers=headers, timeout=60).status_code == 200
        assert program.stop(signal.SIGINT) == (0, "")


@pytest.mark.long
def test_stops_although_a_thread_hangs(tiny_export):
    """A thread decodes a recording for ten minutes; a normal exit of Python would wait for this thread."""
    with served.Served(tiny_export.export_dir, "--stop_seconds=1", program=("-c", HANGING)) as program:
        connection = http.client.HTTPConnection("127.0.0.1", program.port, timeout=60)
        body = hostile_requests.make_form(hostile_requests.make_speech())
        form = {"content-type": "multipart/form-data; boundary=boundary"}
        connection.request("POST", "/v1/audio/transcriptions", body, form)
        assert requests.get(f"{program.url}/v1/models/asr", timeout=60).status_code == 200
        started = time.monotonic()
        code, said = program.stop(signal.SIGTERM)
        assert (code, time.monotonic() - started < 10) == (0, True)
        assert connection.getresponse().status == 503
        connection.close()
        assert "Traceback" not in said, said


@pytest.mark.long
def test_an_idle_connection_is_open_as_long_as_the_flag_says(tiny_export):
    with served.Served(tiny_export.export_dir, "--idle_seconds=1") as program:
        connection = http.client.HTTPConnection("127.0.0.1", program.port, timeout=60)
        connection.request("GET", "/v1/models/asr")
        assert connection.getresponse().read()
        began = time.monotonic()
        assert connection.sock.recv(1) == b""
        assert 0.8 < time.monotonic() - began < 30
        connection.close()


@pytest.mark.long
def test_killed_and_started_again(tiny_export):
    """The port is free at once, and the model is loaded from the same files."""
    with served.Served(tiny_export.export_dir) as program:
        assert program.stop(signal.SIGKILL) == (-signal.SIGKILL, "")
    with served.Served(tiny_export.export_dir, f"--port={program.port}") as again:
        assert again.url == program.url
        assert requests.get(f"{again.url}/healthz", timeout=60).json()["status"] == "ok"
        assert again.stop(signal.SIGTERM) == (0, "")


@pytest.mark.long
def test_lines_of_the_log_have_time_and_level(tiny_export):
    """uvicorn logs a malformed request, and the server logs a request that exceeds --max_connections."""
    head = b"POST /v1/models/asr:predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999\r\n\r\n"
    with served.Served(tiny_export.export_dir, "--max_connections=1") as program:
        with socket.create_connection(("127.0.0.1", program.port), timeout=60) as malformed:
            malformed.sendall(b"no HTTP\r\n\r\n")
            assert malformed.makefile("rb").readline().startswith(b"HTTP/1.1 400 ")
        with socket.create_connection(("127.0.0.1", program.port), timeout=60) as busy:
            busy.sendall(head)
            time.sleep(1)
            refused = requests.get(f"{program.url}/v1/models", headers={"x-request-id": "meeting-7"})
        assert (refused.status_code, refused.headers["x-request-id"]) == (503, "meeting-7")
        code, said = program.stop(signal.SIGTERM)
    time_of = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}"
    ours = "GET /v1/models: status is 503, request id is meeting-7"
    expected = rf"{time_of} WARNING Invalid HTTP request received\.\n{time_of} ERROR {ours}\n"
    assert (code, bool(re.fullmatch(expected, said))) == (0, True), said


def run(*flags):
    command = [sys.executable, "-m", "estimator_asr.serve", *flags]
    return subprocess.run(command, capture_output=True, text=True, env=served.ENVIRONMENT, timeout=120)


@pytest.mark.long
def test_a_port_in_use_is_refused(tiny_export):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run(f"--saved_model={tiny_export.export_dir}", f"--port={port}")
    expected = f"error: cannot listen on 127.0.0.1:{port} (Address already in use); pass another --port\n"
    assert (done.returncode, done.stderr) == (1, expected)


@pytest.mark.long
def test_help_shows_example_commands():
    done = run("--help")
    assert done.returncode == 0
    for text in ("/v1/audio/transcriptions -F file=@speech.mp3", "--max_queue_seconds", "SIGTERM"):
        assert text in done.stdout


@pytest.mark.long
def test_a_missing_server_package_is_named_with_the_install_command(tmp_path):
    (tmp_path / "uvicorn.py").write_text("raise ImportError('no', name='uvicorn')")
    command = [sys.executable, "-m", "estimator_asr.serve", "--saved_model=x"]
    environment = {**served.ENVIRONMENT, "PYTHONPATH": f"{tmp_path}:{paths.ROOT}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.stderr == (
        "error: the server needs uvicorn, which cannot be imported; run pip install 'estimator-asr[serve]'\n"
    )


@pytest.mark.parametrize("content", ["", " \n", "two words", "é"])
def test_token_files_without_a_token(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content, encoding="utf-8")
    message = "token contains no valid token; write a single word of ASCII characters"
    with pytest.raises(errors.UserError, match=message):
        serve.read_token(str(path))


@pytest.mark.long
def test_an_empty_token_file_flag_is_not_a_server_without_a_token(tiny_export):
    done = run(f"--saved_model={tiny_export.export_dir}", "--token_file=")
    problem = "flag --token_file=: the value is empty; pass a value, or leave the flag out; see --help"
    assert (done.returncode, done.stderr) == (1, f"error: {problem}\n")
    with pytest.raises(errors.UserError, match="--token_file: .*cannot be read"):
        serve.read_token("")


@pytest.mark.parametrize("host", ["x" * 300, "a..b"])
def test_an_unknown_host_is_refused(host):
    with pytest.raises(errors.UserError, match="^--host is '.{3,83}', expected a host name or IP address$"):
        running.bind(host, 0)


@pytest.mark.long
def test_other_hosts_are_refused_on_this_machine_alone(tiny_export):
    with served.Served(tiny_export.export_dir) as program:
        for host in ("localhost", f"127.0.0.1:{program.port}", "[::1]:80", "LOCALHOST:1"):
            assert requests.get(f"{program.url}/v1/models/asr", headers={"host": host}).status_code == 200
        for host in ("example.com", f"example.com:{program.port}", "", "127.0.0.1.example.com"):
            found = requests.get(f"{program.url}/v1/models/asr", headers={"host": host})
            assert found.status_code == 400
            assert found.json()["error"] == (
                f"the Host header is {host!r}, expected one of localhost, 127.0.0.1, [::1]; open one of "
                "these addresses, or start the server with --token_file"
            )
        assert program.stop(signal.SIGTERM) == (0, "")


@pytest.mark.long
def test_a_server_that_is_open_to_all_says_so(tiny_export):
    with served.Served(tiny_export.export_dir, "--host=0.0.0.0") as program:
        said = "--host=0.0.0.0: anyone who can reach the server can use it; pass --token_file to require"
        code, log = program.stop(signal.SIGTERM)
        assert (code, log.count(said)) == (0, 1)


def test_a_missing_token_file_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match=r"--token_file: .*none cannot be read \("):
        serve.read_token(str(tmp_path / "none"))
    assert serve.read_token(None) is None
