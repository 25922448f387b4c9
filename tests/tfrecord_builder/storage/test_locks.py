import errno
import fcntl
import os
import shutil
import threading
import time

import pytest

from tfrecord_builder import errors
from tfrecord_builder.storage import locks


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_text("content")
    return str(tmp_path / "file")


@pytest.fixture
def no_locks(monkeypatch):
    """Simulates a file system without locks."""

    def refuse(descriptor, kind):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)


def _remove(path):
    return locks.remove_unless_read(path, lambda: os.remove(path))


def _expect_busy(path, **options):
    busy = "a: is busy; wait"
    with pytest.raises(errors.UserError, match=f"^{busy}$"), locks.exclusive(path, busy, **options):
        pass


@pytest.mark.parametrize("name", [".", "file", "new"])
def test_directories_files_and_new_files_can_be_locked(tmp_path, path, name):
    locked = str(tmp_path / name)
    with locks.exclusive(locked, "a: is busy; wait"):
        _expect_busy(locked)
    with locks.exclusive(locked, ""):
        pass
    with open(path) as file:
        assert file.read() == "content"


def test_a_file_can_be_reserved_by_only_one_process(path):
    with locks.exclusive(f"{path}.lock", is_temporary=True, busy="a: is busy; wait"):
        assert os.path.exists(f"{path}.lock")
        _expect_busy(f"{path}.lock", is_temporary=True)
    assert not os.path.exists(f"{path}.lock")
    open(f"{path}.lock", "w").close()  # a leftover from a killed process
    with locks.exclusive(f"{path}.lock", is_temporary=True, busy=""):
        pass
    assert os.listdir(os.path.dirname(path)) == ["file"]


def test_a_file_that_is_being_read_is_not_removed(path):
    first, second = locks.ReadLock(path), locks.ReadLock(path)
    first.release()
    assert not _remove(path) and os.path.exists(path)
    second.release()
    assert _remove(path) and not os.path.exists(path)


def test_a_read_lock_ends_with_its_object(path):
    lock = locks.ReadLock(path)
    del lock
    assert _remove(path)


def test_a_read_only_file_is_removed_too(path, monkeypatch):
    os.chmod(path, 0o444)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root would have every permission
    lock = locks.ReadLock(path)
    assert not _remove(path)
    lock.release()
    assert _remove(path) and not os.path.exists(path)


def test_a_missing_file_cannot_be_locked_but_remove_is_called(tmp_path):
    missing, removed = str(tmp_path / "missing"), []
    with pytest.raises(FileNotFoundError):
        locks.ReadLock(missing)
    assert locks.remove_unless_read(missing, lambda: removed.append(1)) and removed == [1]


@pytest.mark.parametrize("change", [os.remove, lambda path: os.replace(shutil.copy(path, f"{path}2"), path)])
def test_a_file_removed_or_replaced_between_opening_and_locking_is_not_locked(path, monkeypatch, change):
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, kind: change(path))
    with pytest.raises(errors.UserError, match="busy"), locks.exclusive(path, "busy"):
        pass
    open(path, "a").close()
    with pytest.raises(FileNotFoundError) as missing:
        locks.ReadLock(path)
    assert missing.value.filename == path


def test_without_locks_in_the_file_system_every_process_gets_them(path, no_locks):
    locks.ReadLock(path)
    with locks.exclusive(path, "busy"), locks.exclusive(path, "busy"):
        assert _remove(path)


def test_without_locks_in_the_file_system_a_file_can_be_reserved_twice(path, no_locks):
    options = dict(is_temporary=True, busy="")
    with locks.exclusive(f"{path}.lock", **options), locks.exclusive(f"{path}.lock", **options):
        pass
    assert os.listdir(os.path.dirname(path)) == ["file"]


def test_in_turn_fails_without_locks_in_the_file_system(tmp_path, no_locks):
    lock = locks.exclusive(str(tmp_path / "a"), is_temporary=True)
    with pytest.raises(OSError, match="No locks available"), lock:
        pass


def test_only_one_thread_at_a_time_is_inside_in_turn(tmp_path):
    inside, most = [], []

    def enter():
        for _ in range(20):
            with locks.exclusive(str(tmp_path / "a"), is_temporary=True):
                inside.append(True)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 60 and os.listdir(tmp_path) == []


def test_the_directory_may_be_cleared_while_locked(tmp_path):
    directory = tmp_path / "cleared"
    directory.mkdir()
    with locks.exclusive(str(directory / "a"), is_temporary=True):
        shutil.rmtree(directory)
    with pytest.raises(FileNotFoundError), locks.exclusive(str(directory / "a"), is_temporary=True):
        pass
