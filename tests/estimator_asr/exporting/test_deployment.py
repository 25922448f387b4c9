"""Files for servers: warm-up requests are valid for TensorFlow Serving; the client needs only Python."""

import base64
import contextlib
import http.server
import io
import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest
import soundfile
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from estimator_asr.exporting import deployment
from estimator_asr.exporting.saved_model import recogniser

ANSWER = {"status": "ok", "transcript": "你好", "pinyin": "ni3 hao3"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    path = tmp_path_factory.mktemp("version")
    deployment.write(str(path), 16000)
    return path / "assets.extra"


def read_requests(files):
    for record in tf.compat.v1.io.tf_record_iterator(str(files / "tf_serving_warmup_requests")):
        log = prediction_log_pb2.PredictionLog()
        log.ParseFromString(record)
        yield log.predict_log.request


def test_warm_up_requests_are_wav_files_of_one_and_five_seconds(files):
    requests = list(read_requests(files))
    specs = [(each.model_spec.name, each.model_spec.signature_name) for each in requests]
    assert specs == [("asr", "serving_default")] * 2
    decoded = [soundfile.read(io.BytesIO(tf.make_ndarray(each.inputs["wav_bytes"])[0])) for each in requests]
    assert [(len(samples), rate) for samples, rate in decoded] == [(16000, 16000), (80000, 16000)]


@pytest.mark.long
def test_the_model_recognises_the_warm_up_requests(files, tiny_export):
    model = recogniser.load(tiny_export.version_dir, "serving_default")
    for request in read_requests(files):
        found = model.run({name: tf.make_ndarray(value) for name, value in request.inputs.items()})
        assert found["status"] == ["ok"]
    model.session.close()


def test_batching_parameters(files):
    lines = (files / "batching_parameters.txt").read_text().splitlines()
    names = ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads")
    assert [line.split(" ", 1)[0] for line in lines] == [*names, "pad_variable_length_inputs:"]
    assert lines[0] == "max_batch_size { value: 4 }"


@contextlib.contextmanager
def serve(status: int, answer: dict):
    """Serves the same answer to every request; yields the model's URL and the list of requests."""
    bodies = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append((self.path, json.loads(body)))
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/models/asr", bodies
        server.shutdown()


def run_client(files, *arguments):
    command = [sys.executable, "-S", str(files / "client.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_client_sends_one_file_per_request(files, tmp_path):
    """TensorFlow Serving refuses requests with more than max_batch_size files, and any limit may be set."""
    paths = [str(tmp_path / f"{i}.wav") for i in range(5)]
    for path in paths:
        pathlib.Path(path).write_bytes(b"RIFF")
    with serve(200, {"predictions": [ANSWER]}) as (url, bodies):
        done = run_client(files, f"--url={url}", *paths)
    assert done.stdout == "".join(f"{path}\tok\t你好\tni3 hao3\n" for path in paths), done.stderr
    content = {"instances": [{"b64": base64.b64encode(b"RIFF").decode()}]}
    assert bodies == [("/v1/models/asr:predict", content)] * 5


def test_client_prints_the_error_of_the_server(files, tmp_path):
    (tmp_path / "speech.wav").write_bytes(b"RIFF")
    with serve(429, {"error": "busy"}) as (url, _):
        done = run_client(files, f"--url={url}", str(tmp_path / "speech.wav"))
    assert (done.returncode, done.stderr) == (1, f'error: {url}: 429 {{"error": "busy"}}\n')


def test_client_names_a_file_that_is_missing(files, tmp_path):
    done = run_client(files, str(tmp_path / "no.wav"))
    problem = "cannot be read (No such file or directory); pass paths of WAV files"
    assert (done.returncode, done.stderr) == (1, f"error: {tmp_path}/no.wav {problem}\n")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:9/v1/models/asr", "<urlopen error [Errno 111] Connection refused>"),
        ("http://a:1", "nonnumeric port: 'predict'"),
        ("asr", "<urlopen error unknown url type: asr>"),
        ("/", "unknown url type: '/:predict'"),
    ],
)
def test_client_reports_a_server_that_cannot_be_reached(files, url, reason):
    done = run_client(files, f"--url={url}", os.devnull)
    error = f"error: {url} cannot be reached ({reason}); start the server, or pass another --url\n"
    assert (done.returncode, done.stderr) == (1, error)


def test_an_export_without_tensorflow_serving_api_has_no_warm_up_requests(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
    with caplog.at_level("INFO"):
        deployment.write(str(tmp_path), 16000)
    assert sorted(os.listdir(tmp_path / "assets.extra")) == ["batching_parameters.txt", "client.py"]
    assert "tf_serving_warmup_requests needs tensorflow_serving" in caplog.text
    assert "pip install 'estimator-asr[tensorflow-serving]'" in caplog.text
