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


def test_a_checkpoint_that_is_being_read_is_not_removed(checkpoint):
    first, second = locks.ReadLock(checkpoint), locks.ReadLock(checkpoint)
    first.release()
    assert not remove_unless_read(checkpoint) and os.path.exists(f"{checkpoint}.index")
    second.release()
    assert remove_unless_read(checkpoint) and not os.path.exists(f"{checkpoint}.index")


def test_a_lock_ends_with_its_object(checkpoint):
    lock = locks.ReadLock(checkpoint)
    del lock
    assert remove_unless_read(checkpoint)


def test_a_missing_checkpoint_cannot_be_locked_but_removed(tmp_path):
    with pytest.raises(FileNotFoundError):
        locks.ReadLock(str(tmp_path / "model.ckpt-1"))
    removed = []
    assert locks.remove_unless_read(str(tmp_path / "model.ckpt-1"), lambda: removed.append(1))
    assert removed == [1]


def test_find_is_called_again_if_its_checkpoint_was_deleted(tmp_path, checkpoint):
    answers = ["gone", checkpoint]
    found, _ = locks.lock(lambda: answers.pop(0) if len(answers) > 1 else answers[0])
    assert found == checkpoint
    with pytest.raises(FileNotFoundError):
        locks.lock(lambda: str(tmp_path / "nowhere"))


def test_a_file_replaced_between_opening_and_locking_is_not_locked(checkpoint, monkeypatch):
    def replace(file, how):
        os.rename(f"{checkpoint}.index", f"{checkpoint}.old")

    monkeypatch.setattr(locks.fcntl, "flock", replace)
    with pytest.raises(FileNotFoundError):
        locks.ReadLock(checkpoint)


def test_without_locks_in_the_file_system_everything_else_works(checkpoint, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    locks.ReadLock(checkpoint)
    assert remove_unless_read(checkpoint)
