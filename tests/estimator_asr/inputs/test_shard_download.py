"""Downloads from TensorFlow's in-memory file system, with a fake clock that only the downloads advance."""

import errno
import hashlib

import pytest
import tensorflow as tf

from estimator_asr.inputs import shard_cache, splits
from tfrecord_builder import errors
from tfrecord_builder.storage import files

SOURCE = "ram://downloads/a"
CONTENT = b"0123456789"


class Clock:
    """Replaces `time` in shard_cache."""

    def __init__(self):
        self.now = 0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Store:
    """An object store; each download takes the next of `answers`: bytes, error code or None, seconds."""

    def __init__(self, clock):
        self._clock, self.answers = clock, []

    def download(self, path, file):
        content, code, seconds = self.answers.pop(0)
        file.write(content)
        self._clock.now += seconds
        if code:
            raise OSError(code, "the store cannot be used", path)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(shard_cache, "time", clock)
    return clock


@pytest.fixture
def store(clock, monkeypatch):
    store = Store(clock)
    monkeypatch.setattr(files, "download", store.download)
    return store


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "target"
    path.write_bytes(bytes(len(CONTENT)))
    return path


def _download(target):
    shard_cache.download(
        splits.DataShard(SOURCE, len(CONTENT), hashlib.sha256(CONTENT).hexdigest()), str(target)
    )


def test_a_shard_is_downloaded_from_a_store(target):
    with tf.io.gfile.GFile(SOURCE, "wb") as file:
        file.write(CONTENT)
    _download(target)
    assert target.read_bytes() == CONTENT


def test_a_store_that_fails_is_tried_again_every_two_seconds(store, clock, target, caplog):
    store.answers = [(b"", errno.EIO, 1), (b"", errno.ETIMEDOUT, 1), (CONTENT, None, 5)]
    _download(target)
    assert target.read_bytes() == CONTENT and clock.now == 1 + 2 + 1 + 2 + 5
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"{SOURCE}: the store cannot be used; trying again"] * 2


def test_the_minute_begins_with_the_first_failure(store, target):
    store.answers = [(b"0123", errno.EIO, 300), (CONTENT, None, 300)]
    _download(target)
    assert target.read_bytes() == CONTENT


def test_the_minute_begins_again_when_the_store_has_sent_something(store, target):
    store.answers = [(b"", errno.EIO, 50), (b"01", errno.EIO, 50), (b"", errno.EIO, 50), (CONTENT, None, 0)]
    _download(target)
    assert target.read_bytes() == CONTENT


def test_a_store_that_sends_nothing_for_a_minute_is_given_up(store, target):
    store.answers = [(b"", errno.EIO, 20)] * 10
    with pytest.raises(OSError, match="the store cannot be used: 'ram://downloads/a'"):
        _download(target)
    assert len(store.answers) == 10 - 4  # the attempts end at 20, 42, 64 and 86 seconds; the limit is 80


def test_a_store_that_always_breaks_off_is_given_up(store, target):
    store.answers = [(b"0123", errno.EIO, 0)] * 101
    with pytest.raises(OSError, match="the store cannot be used"):
        _download(target)
    assert len(store.answers) == 1


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EACCES, errno.ENXIO, errno.ENOSPC])
def test_lasting_errors_are_not_tried_again(store, target, code):
    store.answers = [(b"", code, 0)] * 2
    with pytest.raises(OSError) as caught:
        _download(target)
    assert caught.value.errno == code and len(store.answers) == 1


@pytest.mark.parametrize("damaged", [b"012345678x", CONTENT + b"x", b"01234"])
def test_a_damaged_copy_is_downloaded_again(store, target, damaged, caplog):
    store.answers = [(damaged, None, 0), (CONTENT, None, 0)]
    _download(target)
    assert target.read_bytes() == CONTENT
    (said,) = [record.getMessage() for record in caplog.records]
    problem = "does not match the size and sha256 in dataset_info.json"
    assert said == f"{SOURCE}: the downloaded copy {problem}"


@pytest.mark.parametrize("wrong", [b"012345678x", CONTENT + b"x", b"01234"])
def test_a_shard_that_differs_from_dataset_info_is_refused(store, target, wrong):
    store.answers = [(wrong, None, 0)] * 3
    with pytest.raises(errors.UserError) as caught:
        _download(target)
    assert len(store.answers) == 1 and str(caught.value) == (
        f"{SOURCE}: shard does not match the size and sha256 in dataset_info.json; "
        "copy or build the data again"
    )
