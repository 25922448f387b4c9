import errno
import hashlib
import os
import socket

import pytest

from tfrecord_builder import errors
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files


def test_a_path_with_a_scheme_is_remote():
    assert urls.is_remote("s3://bucket/a.wav") and not urls.is_remote("/data/a.wav")


def test_links_to_directories_are_followed_without_endless_cycles(tmp_path):
    (tmp_path / "disk2" / "S0002").mkdir(parents=True)
    (tmp_path / "disk2" / "S0002" / "1.wav").write_bytes(b"")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "S0002").symlink_to(tmp_path / "disk2" / "S0002")
    (tmp_path / "corpus" / "circle").symlink_to(tmp_path / "corpus")
    found = list(files.find_files(str(tmp_path / "corpus"), (".wav",)))
    assert found == [str(tmp_path / "corpus" / "S0002" / "1.wav")]


def test_a_directory_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    def deny(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", deny)  # root would have every permission
    with pytest.raises(PermissionError):
        list(files.find_files(str(tmp_path), (".wav",)))


def test_pipes_sockets_and_devices_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for path in (tmp_path / "pipe", tmp_path / "socket", "/dev/zero"):
        for read in (files.open_binary, files.read_text, files.sha256):
            with pytest.raises(OSError, match="Not a regular file"):
                read(str(path))
    with pytest.raises(OSError, match="Not a regular file"):
        files.open_binary(f"{tmp_path / 'pipe'}:17")  # names a member of an archive


def test_sha256_of_a_file_longer_than_a_block(tmp_path):
    content = bytes(range(256)) * 10_000
    (tmp_path / "a").write_bytes(content)
    assert files.sha256(str(tmp_path / "a")) == hashlib.sha256(content).hexdigest()


def test_only_regular_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "cycle").symlink_to("cycle")
    before = {path.name: path.lstat().st_ino for path in tmp_path.iterdir()}
    for name in before:
        said = f"^{tmp_path / name} exists and is not a regular file; choose another path$"
        with pytest.raises(errors.UserError, match=said), files.writing(str(tmp_path / name)):
            raise AssertionError("nothing is written")
    assert {path.name: path.lstat().st_ino for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("exists", [True, False])
def test_writing_to_a_link_replaces_its_target(tmp_path, exists):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "file", tmp_path / "link"
    if exists:
        target.write_text("old")
    link.symlink_to("elsewhere/file")
    files.write_text(str(link), "new")
    assert link.is_symlink() and target.read_text() == link.read_text() == "new"
    assert os.listdir(tmp_path / "elsewhere") == ["file"]
