"""File functions work the same on a disk, in S3 (a local server) and with tf.io.gfile (in memory)."""

import errno
import os
import pathlib

import pytest
import s3_server
import tensorflow as tf

from tfrecord_builder.storage import files

REMOTE = {"s3": f"{s3_server.BUCKET}/stores", "gfile": "ram://host"}


@pytest.fixture(params=["disk", "s3", "gfile"])
def root(request, tmp_path):
    """An empty directory."""
    if request.param == "disk":
        return str(tmp_path)
    path = REMOTE[request.param]
    if request.param == "s3":
        client = request.getfixturevalue("store")
        for key in s3_server.list_keys(client, "stores"):
            client.delete_object(Bucket="bucket", Key=f"stores/{key}")
    else:
        if tf.io.gfile.exists(path):
            tf.io.gfile.rmtree(path)
        tf.io.gfile.makedirs(f"{path}/")
    return path


def _write(path, content="content"):
    files.write_text(path, content)
    return path


def test_a_file_is_written_read_moved_and_removed(root):
    files.make_directory(f"{root}/one")
    path = f"{root}/one/two.txt"
    assert not files.exists(path)
    _write(path)
    assert files.exists(path) and not files.is_directory(path) and files.is_directory(f"{root}/one")
    size, time_ns = files.size_and_time(path)
    assert size == 7 and (time_ns > 1e18 or root == REMOTE["gfile"])  # ram:// has no modification times
    _write(path, "other")
    with files.open_binary(path) as file:
        assert file.seek(1) == 1 and file.read() == b"ther"
    files.move(path, _write(f"{root}/one/three.txt"))
    assert files.list_names(f"{root}/one") == ["three.txt"] and files.list_names(root) == ["one"]
    assert files.read_text(f"{root}/one/three.txt") == "other"
    _write(f"{root}/one/four.txt", "")
    assert files.read_text(f"{root}/one/four.txt") == ""
    files.remove(f"{root}/one/three.txt")
    assert files.list_names(f"{root}/one") == ["four.txt"]
    files.remove_tree(f"{root}/one")
    assert not files.exists(f"{root}/one")


def test_a_failed_write_leaves_the_old_file_alone(root):
    _write(f"{root}/old")
    for name in ("old", "new"):
        with pytest.raises(KeyError), files.writing(f"{root}/{name}") as temporary:
            pathlib.Path(temporary).write_bytes(b"half")
            raise KeyError
    assert files.list_names(root) == ["old"] and files.read_text(f"{root}/old") == "content"


def test_files_are_found_by_suffix_in_any_case_in_one_order(root):
    for name in ("b/2.WAV", "b/1.wav", "a.b/c/4.wav", "a.b/3.flac", "a.b/5.txt", "0.wav"):
        files.make_directory(os.path.dirname(f"{root}/find/{name}"))
        _write(f"{root}/find/{name}")
    found = files.find_files(f"{root}/find", (".wav", ".flac"))
    expected = ["0.wav", "a.b/3.flac", "a.b/c/4.wav", "b/1.wav", "b/2.WAV"]
    assert [path.removeprefix(f"{root}/find/") for path in found] == expected


def test_a_member_of_an_archive_is_read(root):
    path = _write(f"{root}/speech.ark", "u1 0123456789")
    assert files.read_text(f"{path}:3+4") == "0123" and files.exists(f"{path}:3+4")
    assert files.size_and_time(f"{path}:3+4")[0] == 13
    with pytest.raises(FileNotFoundError):
        files.open_binary(f"{root}/none.ark:3+4")


def test_missing_files_are_not_found_errors(root):
    for function in (files.open_binary, files.size_and_time, files.list_names, files.remove_tree):
        with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{root}/none'"):
            function(f"{root}/none")


def test_dots_in_a_path_do_not_leave_its_bucket_or_host(store):
    for place in ("s3://bucket", "ram://host"):
        files.make_directory(f"{place}/")
        _write(f"{place}/a", "here")
        assert files.read_text(f"{place}/../a") == files.read_text(f"{place}/none/./..//a") == "here"


@pytest.mark.parametrize("place", ["s3://nobody", "ram://nobody"])
def test_a_missing_bucket_or_host_is_an_error(store, place):
    """FileNotFoundError would mean that a corpus lacks a file."""
    with pytest.raises(OSError, match=f"there is no such bucket or server: '{place}/'") as caught:
        files.size_and_time(f"{place}/a")
    assert caught.value.errno == errno.ENXIO
