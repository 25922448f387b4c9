from __future__ import annotations

import errno
import os

import pytest
import small_checkpoints

from estimator_asr.checkpointing import locks


@pytest.fixture
def checkpoint(tmp_path):
    return small_checkpoints.save(tmp_path, 1)


def remove_unless_read(checkpoint):
    return locks.remove_unless_read(checkpoint, lambda: os.remove(f"{checkpoint}.index"))


def test_what_somebody_reads_is_not_removed(checkpoint):
    first, second = locks.ReadLock(checkpoint), locks.ReadLock(checkpoint)
    first.release()
    assert not remove_unless_read(checkpoint) and os.path.exists(f"{checkpoint}.index")
    second.release()
    assert remove_unless_read(checkpoint) and not os.path.exists(f"{checkpoint}.index")


def test_a_lock_ends_with_its_object(checkpoint):
    lock = locks.ReadLock(checkpoint)
    del lock
    assert remove_unless_read(checkpoint)


def test_what_is_not_there_cannot_be_locked_but_removed(tmp_path):
    with pytest.raises(FileNotFoundError):
        locks.ReadLock(str(tmp_path / "model.ckpt-1"))
    removed = []
    assert locks.remove_unless_read(str(tmp_path / "model.ckpt-1"), lambda: removed.append(1))
    assert removed == [1]


def test_the_one_that_was_deleted_before_the_lock_is_looked_for_again(tmp_path, checkpoint):
    answers = ["gone", checkpoint]
    found, _ = locks.lock(lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    assert found == checkpoint
    with pytest.raises(FileNotFoundError):
        locks.lock(lambda: str(tmp_path / "nowhere"))


def test_a_file_that_is_replaced_between_opening_and_locking_is_not_taken(checkpoint, monkeypatch):
    def replace(file, how):
        os.rename(f"{checkpoint}.index", f"{checkpoint}.old")

    monkeypatch.setattr(locks.fcntl, "flock", replace)
    with pytest.raises(FileNotFoundError):
        locks.ReadLock(checkpoint)


def test_a_file_system_without_locks_keeps_nobody_from_working(checkpoint, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    locks.ReadLock(checkpoint)
    assert remove_unless_read(checkpoint)
