"""The demo's directory: of one size, for one demo at a time, and nobody else's."""

from __future__ import annotations

import errno
import fcntl
import os

import pytest

from estimator_asr.demo import directory
from tfrecord_builder import errors


def test_a_directory_is_claimed_again_for_the_same_size(tmp_path):
    for _ in range(2):
        with directory.claim(tmp_path / "new" / "demo", "small") as lock:
            assert os.fstat(lock)
    assert (tmp_path / "new" / "demo" / "size.txt").read_text() == "small"


def test_refuses_another_size(tmp_path):
    with directory.claim(tmp_path, "small"):
        pass
    expected = "--size is full, expected small as in .*size.txt; remove "
    with pytest.raises(errors.UserError, match=expected), directory.claim(tmp_path, "full"):
        pass


def test_refuses_a_directory_where_another_demo_runs(tmp_path):
    expected = f"another demo, or a stage that outlived one, is running in {tmp_path}; wait "
    with directory.claim(tmp_path, "small"):
        with pytest.raises(errors.UserError, match=expected), directory.claim(tmp_path, "small"):
            pass
    with directory.claim(tmp_path, "small"):
        pass


def test_a_file_system_without_locks_keeps_no_demo_from_running(tmp_path, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with directory.claim(tmp_path, "small"):
        pass


def test_refuses_a_directory_of_something_else(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    expected = "holds files and no size.txt, expected a demo or a new directory"
    with pytest.raises(errors.UserError, match=expected), directory.claim(tmp_path, "small"):
        pass
    assert os.listdir(tmp_path) == ["letter.txt"]
