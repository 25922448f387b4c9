import errno
import fcntl
import hashlib
import os

import loopback_server
import pytest
from small_archives import DATA, FILES, SOUND, L, M, X

from tfrecord_builder import errors
from tfrecord_builder.downloading import archives, corpus_directory, fetch


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(fetch, "_PAUSES_SECONDS", (0.01,))
    with loopback_server.serve(FILES) as server:
        yield server


def run(server, corpus, directory, parts=()):
    return corpus_directory.download(corpus, str(directory), parts, server.address())


def error_of(server, corpus, directory, parts=()):
    with pytest.raises(errors.UserError) as caught:
        run(server, corpus, directory, parts)
    return str(caught.value)


def tree(directory):
    return sorted(
        os.path.relpath(os.path.join(d, f), directory) for d, _, fs in os.walk(directory) for f in fs
    )


DONE = ["data_x/.data_x.tgz.unpacked", "data_x/t.txt", "data_x/wav/train/S1/a.wav"]


def test_downloads_checks_and_unpacks(server, tmp_path):
    assert run(server, X, tmp_path / "new" / "dir") == []
    assert tree(tmp_path / "new" / "dir") == DONE
    assert (tmp_path / "new/dir/data_x/wav/train/S1/a.wav").read_bytes() == SOUND


def test_a_second_call_does_nothing(server, tmp_path):
    run(server, X, tmp_path)
    assert run(server, X, tmp_path) == ["data_x.tgz"]
    assert len(server.asked) == 1 and tree(tmp_path) == DONE


def test_continues_after_a_broken_connection(server, tmp_path):
    server.answer = loopback_server.break_off(70_000)
    assert "stopped at 140,000 bytes" in error_of(server, X, tmp_path)
    assert tree(tmp_path) == ["data_x.tgz.incomplete"]
    server.answer = loopback_server.serve_ranges
    run(server, X, tmp_path)
    assert server.asked[-1]["Range"] == "bytes=140000-" and tree(tmp_path) == DONE


def test_a_file_with_a_wrong_checksum_is_renamed(server, tmp_path):
    server.contents["/resources/7/data_x.tgz"] = wrong = DATA[:-1] + b"?"
    sums = f"{hashlib.md5(wrong).hexdigest()}, expected {X.archives[0].md5}; the file was renamed, run"
    assert f"data_x.tgz.wrong: MD5 sum is {sums}" in error_of(server, X, tmp_path)
    assert tree(tmp_path) == ["data_x.tgz.wrong"]
    server.contents["/resources/7/data_x.tgz"] = DATA
    run(server, X, tmp_path)
    assert tree(tmp_path) == ["data_x.tgz.wrong", *DONE]


def test_an_archive_that_is_there_is_used(server, tmp_path):
    (tmp_path / "data_x.tgz").write_bytes(DATA)
    run(server, X, tmp_path)
    assert server.asked == [] and tree(tmp_path) == DONE


def test_a_wrong_archive_that_is_there_is_put_aside(server, tmp_path):
    (tmp_path / "data_x.tgz").write_bytes(b"half")
    assert "data_x.tgz.wrong: MD5 sum is" in error_of(server, X, tmp_path)
    assert tree(tmp_path) == ["data_x.tgz.wrong"]


def test_parts_come_into_one_folder(server, tmp_path):
    run(server, L, tmp_path, ["test"])
    assert tree(tmp_path) == ["L/.test.tar.gz.unpacked", "L/README", "L/test/a.wav"]
    assert run(server, L, tmp_path) == ["test.tar.gz"]
    assert tree(tmp_path / "L") == [
        ".dev.tar.gz.unpacked",
        ".test.tar.gz.unpacked",
        "README",
        "dev/a.wav",
        "test/a.wav",
    ]


def test_archives_without_a_folder_get_one(server, tmp_path):
    run(server, M, tmp_path)
    assert tree(tmp_path) == [
        "m/.a.tgz.unpacked",
        "m/.b.tgz.unpacked",
        "m/ReadMe",
        "m/dev/b.wav",
        "m/train/a.wav",
    ]


def test_files_of_a_killed_call_are_replaced(server, tmp_path):
    (tmp_path / "data_x.tgz").write_bytes(DATA)  # it was killed while it moved the files into place
    for name in ("data_x/wav/train", "data_x.incomplete/data_x"):
        os.makedirs(tmp_path / name)
    (tmp_path / "data_x.incomplete/junk").touch()
    run(server, X, tmp_path)
    assert tree(tmp_path) == DONE
    (tmp_path / "data_x.tgz").write_bytes(DATA)  # or just before it removed the archive
    run(server, X, tmp_path)
    assert tree(tmp_path) == DONE and server.asked == []


def test_a_corpus_that_was_not_downloaded_is_kept(server, tmp_path):
    os.makedirs(tmp_path / "data_x/wav")
    message = error_of(server, X, tmp_path)
    assert f"--corpus_dir: {tmp_path / 'data_x'} exists and was not created by this program, exp" in message
    assert server.asked == []


def test_a_second_download_is_refused(server, tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    message = error_of(server, X, tmp_path)
    os.close(descriptor)
    assert message == (
        f"--corpus_dir: {tmp_path} is locked by another download, expected no other; wait until it ends."
    )
    run(server, X, tmp_path)


def test_a_file_system_without_locks(server, tmp_path, monkeypatch):
    def refuse(descriptor, how):  # as NFS does for a directory
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuse)
    run(server, X, tmp_path)
    assert (tmp_path / "data_x").is_dir()


def test_a_full_disk(server, tmp_path):
    os.symlink("/dev/full", tmp_path / "data_x.tgz.incomplete")
    message = error_of(server, X, tmp_path)
    assert "cannot be written (No space left on device), expected free space and permission; fix" in message


def test_a_directory_that_cannot_be_created(server, tmp_path):
    (tmp_path / "file").touch()
    assert f"--corpus_dir: {tmp_path / 'file'} cannot be written (File exists)" in error_of(
        server, X, tmp_path / "file"
    )


def test_an_unknown_part(server, tmp_path):
    assert error_of(server, L, tmp_path, ["train", "dev"]) == (
        "--parts: train is not a part of L, expected some of dev, test; omit --parts to download all."
    )


def test_an_archive_without_the_folder(server, tmp_path):
    other = archives.Corpus("X", 7, "free", "data_y", X.archives)
    assert (
        "data_x.tgz: folder data_y is missing, expected it in the archive; look at its files in"
        in error_of(server, other, tmp_path)
    )


def test_a_corpus_that_was_withdrawn(server, tmp_path):
    withdrawn = archives.Corpus("X", 7, "free", "data_x", X.archives, unavailable="its owner withdrew it")
    assert error_of(server, withdrawn, tmp_path) == (
        "X: its owner withdrew it, expected a public download; "
        f"put data_x.tgz into {tmp_path}, if you have it, and run the command again."
    )
    assert tree(tmp_path) == server.asked == []
    (tmp_path / "data_x.tgz").write_bytes(DATA)
    run(server, withdrawn, tmp_path)
    assert run(server, withdrawn, tmp_path) == ["data_x.tgz"]
    assert tree(tmp_path) == DONE and server.asked == []
