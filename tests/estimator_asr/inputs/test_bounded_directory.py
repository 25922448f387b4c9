import errno
import os
import time

import pytest

from estimator_asr.inputs import bounded_directory


def _make(directory, name, num_bytes=10, age=0):
    path = directory / name
    path.write_bytes(bytes(num_bytes))
    os.utime(path, (time.time() - age, time.time() - age))
    return str(path)


def test_the_least_recently_used_files_are_removed_to_make_space(tmp_path):
    for name, age in (("a", 30), ("b", 50), ("c", 10)):
        _make(tmp_path, name, age=age)
    bounded_directory.reserve(str(tmp_path / "d.incomplete"), 10, max_bytes=30)
    assert sorted(os.listdir(tmp_path)) == ["a", "c", "d.incomplete"]
    assert os.path.getsize(tmp_path / "d.incomplete") == 10
    bounded_directory.reserve(str(tmp_path / "e.incomplete"), 10, max_bytes=30)  # d counts
    assert sorted(os.listdir(tmp_path)) == ["c", "d.incomplete", "e.incomplete"]


def test_a_held_file_stays_and_a_missing_one_is_not_held(tmp_path):
    held = bounded_directory.hold(_make(tmp_path, "a", age=50))
    _make(tmp_path, "b")
    bounded_directory.reserve(str(tmp_path / "c.incomplete"), 10, max_bytes=10)
    assert sorted(os.listdir(tmp_path)) == ["a", "c.incomplete"]
    held.release()
    bounded_directory.reserve(str(tmp_path / "d.incomplete"), 10, max_bytes=20)
    assert sorted(os.listdir(tmp_path)) == ["c.incomplete", "d.incomplete"]
    assert bounded_directory.hold(str(tmp_path / "a")) is None


def test_incomplete_files_of_killed_processes_are_removed_after_an_hour(tmp_path):
    _make(tmp_path, "old.incomplete", age=3700)
    _make(tmp_path, "young.incomplete", age=3500)
    bounded_directory.reserve(str(tmp_path / "new"), 0, max_bytes=1000)
    assert sorted(os.listdir(tmp_path)) == ["new", "young.incomplete"]


def test_a_full_disk_is_an_error_after_unused_files_are_removed(tmp_path, monkeypatch):
    _make(tmp_path, "a")
    _make(tmp_path, "b", age=10)
    space = iter([False, False, True])

    def allocate(descriptor, offset, num_bytes):
        if not next(space, False):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    bounded_directory.reserve(str(tmp_path / "c.incomplete"), 10, max_bytes=1000)
    assert os.listdir(tmp_path) == ["c.incomplete"]
    with pytest.raises(OSError, match="No space left on device") as caught:
        bounded_directory.reserve(str(tmp_path / "d.incomplete"), 10, max_bytes=1000)
    assert caught.value.errno == errno.ENOSPC


def test_a_file_that_is_completed_during_counting_is_counted(tmp_path, monkeypatch):
    original = os.listdir
    (tmp_path / "a.incomplete").write_bytes(bytes(70))

    def list_then_rename(directory):
        names = original(directory)
        if "a.incomplete" in names:
            os.rename(tmp_path / "a.incomplete", tmp_path / "a")
        return names

    monkeypatch.setattr(os, "listdir", list_then_rename)
    bounded_directory.reserve(str(tmp_path / "b.incomplete"), 40, max_bytes=100)
    assert sorted(original(tmp_path)) == ["b.incomplete"]


def test_a_broken_link_is_removed_like_a_file(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    _make(tmp_path, "a")
    bounded_directory.reserve(str(tmp_path / "b.incomplete"), 10, max_bytes=10)
    assert os.listdir(tmp_path) == ["b.incomplete"]
