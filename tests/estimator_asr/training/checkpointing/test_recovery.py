import os

import pytest
import small_checkpoints
import tensorflow as tf

from estimator_asr.experiment import checkpoints
from estimator_asr.training.checkpointing import recovery
from tfrecord_builder import errors


@pytest.fixture
def three(tmp_path):
    """A model directory with checkpoints of steps 1, 2 and 10."""
    for step in (1, 2, 10):
        small_checkpoints.save(tmp_path, step)
    return tmp_path


def read_files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_an_intact_directory_is_unchanged(three, log):
    before = read_files(three)
    assert recovery.recover(str(three)) == str(three / "model.ckpt-10")
    assert read_files(three) == before and not log


def test_a_state_edited_by_hand_is_respected(three, log):
    checkpoints.write_state(str(three), "model.ckpt-2", ["model.ckpt-1", "model.ckpt-2"])
    assert recovery.recover(str(three)) == str(three / "model.ckpt-2") and not log


@pytest.mark.parametrize("damage", small_checkpoints.DAMAGES)
def test_a_damaged_checkpoint_is_replaced_by_the_one_before(three, log, damage):
    newest = str(three / "model.ckpt-10")
    small_checkpoints.DAMAGES[damage](newest)
    left = len(checkpoints.list_files(newest))
    assert recovery.recover(str(three)) == str(three / "model.ckpt-2")
    assert small_checkpoints.continue_from(three) == 2
    (line,) = log
    assert line.startswith(f"{three}: model.ckpt-10 cannot be read (")
    assert "training continues from model.ckpt-2, the newest readable checkpoint; damaged files were" in line
    assert len(list((three / "damaged" / "model.ckpt-10").iterdir())) == left
    assert not checkpoints.list_files(newest)
    del log[:]
    assert recovery.recover(str(three)) == str(three / "model.ckpt-2") and not log


def test_a_step_that_is_damaged_twice_is_moved_twice(three, log):
    for step in (2, 10):
        small_checkpoints.cut(three / f"model.ckpt-{step}.index")
    assert recovery.recover(str(three)) == str(three / "model.ckpt-1")
    assert log[0].index("model.ckpt-10 cannot") < log[0].index("model.ckpt-2 cannot")
    small_checkpoints.save(three, 2)
    small_checkpoints.cut(three / "model.ckpt-2.index")
    recovery.recover(str(three))
    assert sorted(os.listdir(three / "damaged")) == ["model.ckpt-10", "model.ckpt-2", "model.ckpt-2-2"]


@pytest.mark.parametrize("content", [None, b"", b"\x00\xff\xfe", b"model_checkpoint_path model"])
def test_a_missing_or_damaged_state_is_written_again(three, log, content):
    (three / "checkpoint").unlink()
    if content is not None:
        (three / "checkpoint").write_bytes(content)
    assert recovery.recover(str(three)) == str(three / "model.ckpt-10")
    assert small_checkpoints.continue_from(three) == 10
    fault = "is missing" if content is None else "cannot be read"
    said = "training continues from model.ckpt-10, the newest readable checkpoint"
    assert log == [f"{three}: checkpoint {fault}; {said}"]
    assert not (three / "damaged").exists()


def test_a_state_that_names_a_missing_checkpoint_is_repaired(three, log):
    checkpoints.write_state(str(three), "model.ckpt-11", ["model.ckpt-10", "model.ckpt-11"])
    assert recovery.recover(str(three)) == str(three / "model.ckpt-10")
    assert log[0].startswith(f"{three}: model.ckpt-11 cannot be read (its .index file is missing); training")
    assert small_checkpoints.continue_from(three) == 10


def test_the_saver_continues_to_delete_the_oldest_after_a_recovery(three, log):
    small_checkpoints.cut(three / "model.ckpt-10.data-00000-of-00001")
    recovery.recover(str(three))
    text = (three / "checkpoint").read_text(encoding="utf-8")
    assert text.splitlines() == [
        'model_checkpoint_path: "model.ckpt-2"',
        'all_model_checkpoint_paths: "model.ckpt-1"',
        'all_model_checkpoint_paths: "model.ckpt-2"',
    ]


def test_checkpoints_that_are_all_damaged_are_refused_and_not_moved(three):
    for step in (1, 2, 10):
        small_checkpoints.cut(three / f"model.ckpt-{step}.index")
    before = sorted(os.listdir(three))
    said = "none of the 3 checkpoints can be read .model.ckpt-10 cannot be read .*; copy one from .*best to"
    with pytest.raises(errors.UserError, match=said):
        recovery.recover(str(three))
    assert sorted(os.listdir(three)) == before


def test_without_checkpoint_files_training_starts_from_step_0(tmp_path, log):
    assert recovery.recover(str(tmp_path)) is None and not log
    assert recovery.recover(str(tmp_path / "nowhere")) is None
    checkpoints.write_state(str(tmp_path), "model.ckpt-3", ["model.ckpt-3"])
    assert recovery.recover(str(tmp_path)) is None
    said = "model.ckpt-3 cannot be read (its .index file is missing); training starts from step 0"
    assert log == [f"{tmp_path}: {said}"] and os.listdir(tmp_path) == []


def test_leftovers_of_a_killed_save_are_removed_and_nothing_else(three):
    before = set(os.listdir(three))
    (three / "model.ckpt-12_temp").mkdir()
    (three / "model.ckpt-12_temp" / "part-00000-of-00001.data-00000-of-00001").touch()
    leftovers = ("model.ckpt-12.index.tempstate15", "model.ckpt-12.index.tmp0a", "checkpoint.tmp0a")
    for name in (*leftovers, "events.out.tfevents.1", "notes.tmp"):
        (three / name).touch()
    recovery.recover(str(three))
    assert set(os.listdir(three)) == before | {"events.out.tfevents.1", "notes.tmp"}


def test_find_changes_nothing(three):
    small_checkpoints.cut(three / "model.ckpt-10.index")
    before = read_files(three)
    found, faults = recovery.find_checkpoint(str(three))
    assert found == str(three / "model.ckpt-2") and list(faults) == [str(three / "model.ckpt-10")]
    assert read_files(three) == before


class Saver(tf.compat.v1.train.Saver):
    """Records the steps that are saved."""

    def save(self, session, path, global_step, **options):
        self.steps = [*getattr(self, "steps", []), int(global_step)]
        return super().save(session, path, global_step, **options)


def train(model_dir, last_step) -> list[int]:
    """Trains until `last_step`; returns the steps that are saved."""
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        advance = tf.compat.v1.assign_add(step, 1)
        saver, hooks = Saver(), [recovery.RegularSaver(model_dir, 10)]
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.SAVERS, saver)
        options = {"hooks": hooks, "save_checkpoint_secs": None, "save_summaries_steps": None}
        with tf.compat.v1.train.MonitoredTrainingSession(checkpoint_dir=model_dir, **options) as session:
            while session.run(advance) < last_step:
                pass
    return saver.steps


@pytest.mark.parametrize("interrupted_at", [7, 10, 13])
def test_after_an_interruption_the_same_steps_are_saved(tmp_path, interrupted_at):
    path = str(tmp_path)
    before = [10] if interrupted_at > 10 else []
    assert train(path, interrupted_at) == [0, *before, interrupted_at]
    after = [step for step in (10, 20, 30) if step > interrupted_at]
    assert train(path, 35) == [interrupted_at, *after, 35]
    assert checkpoints.latest(path).endswith("model.ckpt-35")
