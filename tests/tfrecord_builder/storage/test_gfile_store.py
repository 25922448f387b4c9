"""gfile_store, tested with TensorFlow's in-memory file system (ram://)."""

import sys

import pytest
import tensorflow as tf

from tfrecord_builder.storage import files, gfile_store

ROOT = "ram://host"


@pytest.fixture(autouse=True)
def host():
    """Empties the file system."""
    if tf.io.gfile.exists(ROOT):
        tf.io.gfile.rmtree(ROOT)
    tf.io.gfile.makedirs(f"{ROOT}/")


def test_an_unknown_scheme_is_an_error():
    with pytest.raises(OSError, match="the storage cannot be used .*scheme 'ftp' not implemented"):
        files.exists("ftp://host/a")


def test_refused_access_is_a_permission_error(monkeypatch):
    def refuse(path):
        raise tf.errors.PermissionDeniedError(None, None, "no rights")

    monkeypatch.setattr(tf.io.gfile, "stat", refuse)
    with pytest.raises(PermissionError, match=r"access was denied \(no rights\): 'gs://bucket/a'"):
        files.exists("gs://bucket/a")


def test_an_object_store_shows_complete_files_and_has_no_directories(monkeypatch):
    calls = []
    monkeypatch.setattr(gfile_store, "_OBJECT_STORES", ("ram",))
    monkeypatch.setattr(tf.io.gfile, "rename", lambda *names, **_: calls.append(names))
    files.make_directory(f"{ROOT}/none")
    files.write_text(f"{ROOT}/a", "content")
    assert calls == [] and files.list_names(ROOT) == ["a"]


def test_tensorflow_io_is_loaded_only_for_its_own_schemes(monkeypatch):
    loaded = []
    monkeypatch.setattr(gfile_store, "_load_file_systems", lambda: loaded.append(True))
    for path in ("gs://bucket/a", "ram://host/a", "file:///a"):
        gfile_store._gfile(path)
    assert loaded == []
    gfile_store._gfile("hdfs://host/a")
    assert loaded == [True]


def test_a_tensorflow_io_that_cannot_be_loaded_is_ignored(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_io", None)
    gfile_store._load_file_systems.__wrapped__()
    assert gfile_store._gfile("gs://bucket/a") is tf.io.gfile
