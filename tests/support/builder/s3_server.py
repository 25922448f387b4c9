"""Runs moto's S3 server on this machine; s3:// paths connect to this server."""

import contextlib
import http.server
import logging
import os
import threading

import pytest
from moto import server

from tfrecord_builder.storage import s3_store

BUCKET = "s3://bucket"
_SETTINGS = {
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "us",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextlib.contextmanager
def run():
    """Starts a server with an empty bucket, and sets environment variables for it; yields a client."""
    running = server.ThreadedMotoServer("127.0.0.1", port=0)
    running.start()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    host, port = running.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        clear_settings(patch)
        for name, value in {**_SETTINGS, "S3_ENDPOINT": f"http://{host}:{port}"}.items():
            patch.setenv(name, value)
        s3_store._make_client.cache_clear()
        client = s3_store.connect()
        client.create_bucket(Bucket="bucket")
        for key in list_keys(client):  # moto keeps the objects of earlier servers in this process
            client.delete_object(Bucket="bucket", Key=key)
        yield client
    s3_store._make_client.cache_clear()
    running.stop()


@contextlib.contextmanager
def answer_all(status: int):
    """Starts a server that gives one response to every request; yields its address and the requests."""
    made = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            made.append(f"{self.command} {self.path}")
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_PUT = do_GET

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as answering:
        threading.Thread(target=answering.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{answering.server_port}", made
        answering.shutdown()


def clear_settings(patch) -> None:
    """Removes the user's environment variables for object stores and proxies."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "S3_")) or name.lower().endswith("_proxy"):
            patch.delenv(name)


def put(client, key: str, content: bytes = b"x") -> str:
    """Stores an object and returns its path."""
    client.put_object(Bucket="bucket", Key=key, Body=content)
    return f"{BUCKET}/{key}"


def upload(client, directory, prefix: str) -> str:
    """Stores the files of a directory and returns its path in the store."""
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            client.upload_file(path, "bucket", f"{prefix}/{os.path.relpath(path, directory)}")
    return f"{BUCKET}/{prefix}"


def list_keys(client, folder: str = "") -> list[str]:
    """Returns all keys or, if `folder` is set, the keys in the folder, relative to it."""
    prefix = f"{folder}/" if folder else ""
    found = client.list_objects_v2(Bucket="bucket", Prefix=prefix).get("Contents", [])
    return [each["Key"].removeprefix(prefix) for each in found]


def watch_requests(caplog):
    """Returns a function that returns the method and key of each request since the function's last call."""
    caplog.set_level("INFO", "werkzeug")

    def take():
        lines = [record.getMessage() for record in caplog.records if record.name == "werkzeug"]
        caplog.clear()
        words = [line.replace("\x1b[0m", "").split('"')[1].split(" ") for line in lines]
        return [f"{method[-6:].split('m')[-1]} {path}" for method, path, *_ in words]

    return take
