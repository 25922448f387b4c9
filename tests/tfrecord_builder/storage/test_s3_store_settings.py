"""Settings and errors of s3_store, partly with servers that give the same response to every request."""

import contextlib
import errno
import os
import sys

import boto3.exceptions
import pytest
import s3_server
import s3transfer.exceptions
from botocore import exceptions

from tfrecord_builder import errors
from tfrecord_builder.storage import files, s3_store

PATH = "s3://bucket/a.wav"


@pytest.fixture
def settings(monkeypatch):
    """Returns a function that sets the environment variables, which the next client uses."""

    def set_only(**values):
        s3_server.clear_settings(monkeypatch)
        nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
        for name, value in {**nowhere, "AWS_EC2_METADATA_DISABLED": "true", **values}.items():
            monkeypatch.setenv(name, value)
        s3_store._make_client.cache_clear()

    yield set_only
    s3_store._make_client.cache_clear()


KEYS = {"AWS_ACCESS_KEY_ID": "us", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-north-1"}


@pytest.fixture
def answering(settings):
    """Returns a function that starts a server with a fixed response status and returns its requests."""
    with contextlib.ExitStack() as servers:

        def answer(status):
            address, made = servers.enter_context(s3_server.answer_all(status))
            settings(S3_ENDPOINT=address, **KEYS)
            return made

        yield answer


@pytest.mark.long
def test_timeouts_and_attempts_are_bounded_unless_the_user_sets_them(settings):
    settings(**KEYS)
    config = s3_store.connect().meta.config
    assert (config.connect_timeout, config.read_timeout) == (5, 20)
    assert config.retries["mode"] == "standard" and config.retries.get("total_max_attempts", 3) == 3
    settings(AWS_MAX_ATTEMPTS="7", AWS_RETRY_MODE="adaptive", **KEYS)
    assert s3_store.connect().meta.config.retries == {"mode": "adaptive", "total_max_attempts": 7}


def test_region_and_endpoint_come_from_the_environment(settings):
    settings(**KEYS)
    client = s3_store.connect()
    assert client.meta.region_name == "eu-north-1" and "amazonaws.com" in client.meta.endpoint_url
    settings(S3_ENDPOINT="http://here:1", **KEYS)
    assert s3_store.connect().meta.endpoint_url == "http://here:1"
    settings(S3_ENDPOINT="http://here:1", AWS_ENDPOINT_URL="http://there:2", **KEYS)
    assert s3_store.connect().meta.endpoint_url == "http://there:2"


def test_custom_endpoints_get_no_new_checksums(settings):
    def checksums(**values):
        settings(**KEYS, **values)
        config = s3_store.connect().meta.config
        return config.request_checksum_calculation, config.response_checksum_validation

    assert checksums() == ("when_supported", "when_supported")
    assert checksums(S3_ENDPOINT="http://here:1") == ("when_required", "when_required")
    wished = {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_supported"}
    assert checksums(S3_ENDPOINT="http://here:1", **wished) == ("when_supported", "when_required")


def test_a_client_is_made_once_per_process(settings, monkeypatch):
    settings(**KEYS)
    client = s3_store.connect()
    assert s3_store.connect() is client
    monkeypatch.setattr(os, "getpid", lambda: -1)  # simulates a fork
    assert s3_store.connect() is not client


def test_wrong_credentials_are_a_permission_error(answering):
    answering(403)
    with pytest.raises(PermissionError, match=r"access was denied \(.*403.*'s3://bucket/a.wav'"):
        files.exists(PATH)


def test_missing_credentials_are_a_permission_error(settings):
    settings(S3_ENDPOINT="http://127.0.0.1:9")
    with pytest.raises(PermissionError, match="access was denied .*Unable to locate credentials"):
        files.exists(PATH)


def test_an_unreachable_server_is_an_error(settings):
    settings(S3_ENDPOINT="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1", **KEYS)
    with pytest.raises(OSError, match="the storage cannot be used .*Could not connect to the end") as caught:
        files.size_and_time(PATH)
    assert caught.value.errno == errno.EIO


def test_requests_to_a_failing_server_are_tried_three_times(answering):
    made = answering(500)
    with pytest.raises(OSError, match="the storage cannot be used .*500") as caught:
        files.size_and_time(PATH)
    assert caught.value.errno == errno.EIO and made == ["HEAD /bucket/a.wav"] * 3


def test_a_missing_bucket_is_an_error(answering):
    made = answering(404)
    with pytest.raises(OSError, match="there is no such bucket or server: 's3://bucket/'") as caught:
        files.size_and_time(PATH)
    assert caught.value.errno == errno.ENXIO and made == ["HEAD /bucket/a.wav", "HEAD /bucket"]


@pytest.mark.parametrize(
    "values, reason",
    [({"S3_ENDPOINT": "here"}, "Invalid endpoint: here"), ({"AWS_MAX_ATTEMPTS": "many"}, "invalid literal")],
)
def test_a_wrong_setting_is_an_error(settings, values, reason):
    settings(**KEYS, **values)
    with pytest.raises(OSError, match=f"the storage cannot be used .*{reason}"):
        files.exists(PATH)


@pytest.mark.parametrize(
    "error",
    [
        s3transfer.exceptions.RetriesExceededError(ValueError()),
        s3transfer.exceptions.S3DownloadFailedError("changed"),
        boto3.exceptions.RetriesExceededError(ValueError()),
        exceptions.ResponseStreamingError(error="cut"),
    ],
)
@pytest.mark.long
def test_a_broken_transfer_is_an_os_error(settings, error):
    settings(**KEYS)
    with pytest.raises(OSError, match="the storage cannot be used") as caught, s3_store.request(PATH):
        raise error
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, PATH)


def test_programming_errors_are_not_translated(settings):
    settings(**KEYS)
    with pytest.raises(ValueError, match="a bug"), s3_store.request(PATH):
        raise ValueError("a bug")


def test_a_store_without_boto3_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "boto3.exceptions")
    message = r"s3://bucket/.* needs boto3.*, which cannot be imported; run pip install 'estimator-asr\[s3\]'"
    with pytest.raises(errors.UserError, match=message):
        files.exists("s3://bucket/key")
