import dataclasses
import pathlib

import pytest

from estimator_asr.inputs import buckets, input_progress
from tfrecord_builder import errors

NEW = input_progress.InputProgress(0, 0, "a", buckets.Bucketing((10,), (4,), 10), 1)  # 40 utterances
LARGE = dataclasses.replace(NEW, bucketing=buckets.Bucketing((10,), (8,), 5))


def test_epoch_and_index_are_quotient_and_remainder():
    assert NEW.position(0) == (0, 0) and NEW.position(9) == (0, 9)
    assert NEW.position(23) == (2, 3) and NEW.epochs_at(25) == 2.5 and NEW.step_at(2.5) == 25


def test_several_batches_per_step():
    progress = dataclasses.replace(NEW, batches_per_step=4)
    assert progress.position(3) == (1, 2) and progress.epochs_at(3) == 1.2


def test_a_run_with_the_same_batches_continues_inside_its_epoch():
    assert input_progress.resume(NEW, 23, NEW) is NEW


def test_without_saved_progress_all_steps_are_counted_with_the_batches_of_this_run():
    assert input_progress.resume(None, 23, NEW).position(23) == (2, 3)


@pytest.mark.parametrize(
    "change", [{"bucketing": LARGE.bucketing}, {"order_sha256": "b"}, {"batches_per_step": 2}]
)
def test_a_run_with_other_batches_or_data_restarts_the_epoch(change):
    wanted = dataclasses.replace(NEW, **change)
    restarted = input_progress.resume(NEW, 13, wanted)
    assert restarted == dataclasses.replace(wanted, first_step=13, epoch=1)
    assert restarted.position(13) == (1, 0) and restarted.epochs_at(13) == 1
    assert input_progress.resume(restarted, 14, wanted) is restarted


def test_larger_batches_count_from_the_restarted_epoch():
    restarted = input_progress.resume(NEW, 13, LARGE)
    assert restarted.position(17) == (1, 4) and restarted.position(18) == (2, 0)
    assert restarted.step_at(3) == 13 + 2 * 5 and restarted.epochs_at(23) == 3


def test_a_checkpoint_before_the_restart_starts_that_epoch_too():
    restarted = input_progress.resume(NEW, 13, LARGE)
    assert input_progress.resume(restarted, 12, LARGE) == dataclasses.replace(restarted, first_step=12)


def test_the_progress_is_read_back(tmp_path):
    progress = input_progress.resume(NEW, 13, LARGE)
    assert input_progress.load(str(tmp_path)) is None
    input_progress.save(str(tmp_path), progress)
    assert input_progress.load(str(tmp_path)) == progress
    assert [path.name for path in tmp_path.iterdir()] == ["input_progress.json"]


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '[{"first_step": "x"}]', "[3]"])
def test_a_damaged_progress_file_is_refused(tmp_path, text):
    pathlib.Path(tmp_path, "input_progress.json").write_text(text)
    with pytest.raises(errors.UserError, match="input_progress.json is not a valid record of training"):
        input_progress.load(str(tmp_path))
