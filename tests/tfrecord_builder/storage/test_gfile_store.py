"""gfile_store, tested with TensorFlow's in-memory file system (ram://)."""

import errno
import pathlib
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


def _write(path, content=b"content"):
    with files.writing(path) as temporary:
        pathlib.Path(temporary).write_bytes(content)
    return path


def _read(path):
    with files.open_binary(path) as file:
        return file.read()


def test_a_file_is_written_read_moved_and_removed():
    files.make_directory(f"{ROOT}/one")
    path = f"{ROOT}/one/two.txt"
    assert not files.exists(path)
    _write(path)
    assert files.exists(path) and not files.is_directory(path) and files.is_directory(f"{ROOT}/one")
    assert files.size_and_time(path)[0] == 7 and files.list_names(f"{ROOT}/one") == ["two.txt"]
    _write(path, b"other")
    with files.open_binary(path) as file:
        assert file.seek(1) == 1 and file.read() == b"ther"
    files.move(path, f"{ROOT}/one/three.txt")
    assert files.list_names(f"{ROOT}/one") == ["three.txt"]
    files.remove(f"{ROOT}/one/three.txt")
    assert files.list_names(f"{ROOT}/one") == []


def test_an_empty_file_is_written():
    assert _read(_write(f"{ROOT}/empty", b"")) == b""


def test_a_failed_write_leaves_no_file():
    with pytest.raises(KeyError), files.writing(f"{ROOT}/failed"):
        raise KeyError
    assert files.list_names(ROOT) == []


def test_files_are_found_in_the_same_order_as_on_a_disk():
    for name in ("b/2.WAV", "b/1.wav", "a.b/c/4.wav", "a.b/3.flac", "a.b/5.txt", "0.wav"):
        files.make_directory(f"{ROOT}/find/{name}/..")
        _write(f"{ROOT}/find/{name}")
    found = [
        path.removeprefix(f"{ROOT}/find/") for path in files.find_files(f"{ROOT}/find", (".wav", ".flac"))
    ]
    assert found == ["0.wav", "a.b/3.flac", "a.b/c/4.wav", "b/1.wav", "b/2.WAV"]


def test_dots_in_a_path_do_not_leave_its_host():
    _write(f"{ROOT}/a", b"here")
    assert _read(f"{ROOT}/../a") == _read(f"{ROOT}/none/./..//a") == b"here"


def test_a_member_of_an_archive_is_read():
    assert _read(_write(f"{ROOT}/speech.ark", b"u1 0123456789") + ":3+4") == b"0123"


def test_missing_files_are_not_found_errors():
    for function in (files.open_binary, files.size_and_time, files.list_names, files.remove_tree):
        with pytest.raises(FileNotFoundError, match="No such file or directory: 'ram://host/none'"):
            function(f"{ROOT}/none")


def test_a_missing_host_is_an_error():
    with pytest.raises(OSError, match="there is no such bucket or server: 'ram://nobody/'") as caught:
        files.size_and_time("ram://nobody/a")
    assert caught.value.errno == errno.ENXIO


def test_an_unknown_scheme_is_an_error():
    with pytest.raises(OSError, match="the store cannot be used .*scheme 'ftp' not implemented"):
        files.exists("ftp://host/a")


def test_refused_access_is_a_permission_error(monkeypatch):
    def refuse(path):
        raise tf.errors.PermissionDeniedError(None, None, "no rights")

    monkeypatch.setattr(tf.io.gfile, "stat", refuse)
    with pytest.raises(PermissionError, match=r"access is refused \(no rights\): 'gs://bucket/a'"):
        files.exists("gs://bucket/a")


def test_an_object_store_shows_complete_files_and_has_no_directories(monkeypatch):
    calls = []
    monkeypatch.setattr(gfile_store, "_OBJECT_STORES", ("ram",))
    monkeypatch.setattr(tf.io.gfile, "rename", lambda *names, **_: calls.append(names))
    files.make_directory(f"{ROOT}/none")
    _write(f"{ROOT}/a")
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
