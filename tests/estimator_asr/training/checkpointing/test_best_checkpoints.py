import dataclasses
import json
import math
import os
import pathlib
import shutil

import pytest
import small_checkpoints
import small_models
import tensorflow as tf

from estimator_asr.experiment import checkpoints, model_directory, training_config
from estimator_asr.exporting.saved_model import trained_model
from estimator_asr.training.checkpointing import best_checkpoints
from tfrecord_builder import errors
from tfrecord_builder.storage import locks

RATE = "character-error-rate"


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """A model directory without checkpoints."""
    return small_models.make_for_loop(tmp_path_factory.mktemp("described"))[0].path


@pytest.fixture
def model(described, tmp_path):
    return model_directory.open_model_directory(shutil.copytree(described, str(tmp_path / "lm")))


def keep(model, step, rate, count=2, **metrics):
    """Saves a checkpoint, keeps it if it is among the best, and deletes it as the Saver would."""
    stopping = training_config.StoppingConfig(keep_best_checkpoints=count)
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, stopping=stopping))
    checkpoint = small_checkpoints.save(model.path, step)
    best_checkpoints.keep_if_best(model, checkpoint, {RATE: rate, "global_step": step, **metrics})
    for path in checkpoints.list_files(checkpoint):
        os.remove(path)


def steps(model):
    return [entry.step for entry in best_checkpoints.read_best(model.path)]


def kept(model):
    return [checkpoints.step_of(prefix) for prefix in checkpoints.list_checkpoints(f"{model.path}/best")]


@pytest.mark.long
def test_the_best_checkpoints_survive_restarts_and_the_saver(model):
    for step, rate in [(1, 0.5), (2, 0.7), (3, 0.4), (4, 0.6), (5, 0.45)]:
        keep(model, step, rate)
    assert steps(model) == [3, 5] and kept(model) == [3, 5]
    assert small_checkpoints.continue_from(os.path.join(model.path, "best")) == 3
    assert [entry.error_rate for entry in best_checkpoints.read_best(model.path)] == [0.4, 0.45]


def test_the_earlier_checkpoint_is_kept_if_error_rates_are_equal(model):
    for step in (1, 2, 3):
        keep(model, step, 0.5)
    assert steps(model) == [1, 2]


def test_the_registry_is_readable_json(model):
    keep(model, 7, 0.5, loss=2.0)
    text = pathlib.Path(model.path, "best", "best_checkpoints.json").read_text(encoding="utf-8")
    metrics = {RATE: 0.5, "global_step": 7.0, "loss": 2.0}
    assert json.loads(text) == [{"step": 7, "error_rate": 0.5, "metrics": metrics}]


def test_an_evaluation_with_nan_is_never_the_best(model):
    keep(model, 1, math.nan)
    keep(model, 2, 0.1, loss=math.nan)
    keep(model, 3, math.inf)
    assert steps(model) == [] and not os.path.exists(os.path.join(model.path, "best"))
    keep(model, 4, 0.5, loss=math.inf)  # CTC cannot align the labels of one utterance
    assert steps(model) == [4]


def test_a_step_that_is_evaluated_again_replaces_its_entry(model):
    for rate in (0.5, 0.3):
        keep(model, 1, rate)
    keep(model, 2, 0.4)
    best = best_checkpoints.read_best(model.path)
    assert [(entry.step, entry.error_rate) for entry in best] == [(1, 0.3), (2, 0.4)]


def test_a_smaller_number_to_keep_deletes_the_others(model):
    for step in (1, 2, 3):
        keep(model, step, 1 / step, count=3)
    keep(model, 4, 0.9, count=1)
    assert steps(model) == [3] and kept(model) == [3]


@pytest.mark.long
def test_best_opens_as_a_model_directory(tiny_export, tmp_path):
    path = shutil.copytree(tiny_export.acoustic_dir, str(tmp_path / "am"))
    saved, metrics = checkpoints.latest(path), {"token-error-rate": 0.5, "global_step": 7}
    best_checkpoints.keep_if_best(model_directory.open_model_directory(path), saved, metrics)
    trained = trained_model.open_trained_model(os.path.join(path, "best"))
    assert trained.checkpoint == os.path.join(path, "best", "model.ckpt-7") and trained.global_step == 7
    assert os.path.samefile(f"{trained.checkpoint}.index", f"{saved}.index")  # a hard link


def test_a_file_system_without_hard_links_gets_copies(model, monkeypatch):
    def refuse(source, target):
        raise PermissionError

    monkeypatch.setattr(best_checkpoints.os, "link", refuse)
    keep(model, 1, 0.5)
    assert small_checkpoints.continue_from(os.path.join(model.path, "best")) == 1


def test_leftovers_of_a_killed_process_are_removed_and_not_listed(model):
    keep(model, 1, 0.5)
    small_checkpoints.save(f"{model.path}/best", 9)  # a kill before the registry was written
    os.remove(best_checkpoints.prefix(model.path, 1) + ".index")
    assert steps(model) == []
    keep(model, 2, 0.6)
    assert steps(model) == [2] and kept(model) == [2]


def test_a_checkpoint_that_cannot_be_kept_does_not_end_training(model, monkeypatch, log):
    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "link", refuse)
    keep(model, 1, 0.5)
    said = "cannot be added to the best checkpoints (No space left on device); training continues"
    assert log == [f"{model.path}/model.ckpt-1 {said}"]
    monkeypatch.undo()
    keep(model, 2, 0.6)
    assert steps(model) == [2]


@pytest.mark.long
def test_a_checkpoint_that_was_deleted_meanwhile_is_not_listed(model, log):
    keep(model, 1, 0.5, count=1)
    gone = checkpoints.prefix_of(model.path, 2)
    best_checkpoints.keep_if_best(model, gone, {RATE: 0.1, "global_step": 2})
    said = "cannot be added to the best checkpoints (No such file or directory); training continues"
    assert log == [f"{gone} {said}"]
    listed = json.loads(pathlib.Path(model.path, "best", "best_checkpoints.json").read_text(encoding="utf-8"))
    assert [row["step"] for row in listed] == [1] and kept(model) == [1]
    assert small_checkpoints.continue_from(os.path.join(model.path, "best")) == 1


def test_a_kill_between_two_files_leaves_no_index_without_data(model, monkeypatch):
    link, linked = os.link, []

    def link_once(source, target):
        if linked:
            raise KeyboardInterrupt
        linked.append(source)
        link(source, target)

    monkeypatch.setattr(os, "link", link_once)
    with pytest.raises(KeyboardInterrupt):
        keep(model, 1, 0.5)
    names = [os.path.basename(path) for path in pathlib.Path(model.path, "best").glob("model.ckpt-*")]
    assert names == ["model.ckpt-1.data-00000-of-00001"]


@pytest.mark.parametrize("content", ["", "3", "[3]", '[{"step": 1}]', "[" * 100_000])
def test_a_damaged_registry_is_refused(model, content):
    keep(model, 1, 0.5)
    pathlib.Path(model.path, "best", "best_checkpoints.json").write_text(content, encoding="utf-8")
    said = "best_checkpoints.json: cannot be read .*; restore it from a copy, or move .*best a"
    with pytest.raises(errors.UserError, match=said):
        best_checkpoints.read_best(model.path)


def test_a_checkpoint_that_is_being_read_is_deleted_later(model):
    keep(model, 1, 0.5, count=1)
    checkpoint = checkpoints.latest(os.path.join(model.path, "best"))
    lock = locks.ReadLock(f"{checkpoint}.index")
    for step in (2, 3):
        keep(model, step, 0.5 - step / 10, count=1)
    assert steps(model) == [3] and kept(model) == [1, 3]  # nobody was reading 2, so it was deleted
    assert tf.train.load_checkpoint(checkpoint).get_tensor("x")[0] == 1.0
    lock.release()
    keep(model, 4, 0.9, count=1)
    assert kept(model) == [3]


def test_training_in_a_best_directory_is_refused(model):
    keep(model, 2, 0.5)
    best_checkpoints.refuse_training(model.path)
    with pytest.raises(errors.UserError) as refusal:
        best_checkpoints.refuse_training(f"{model.path}/best")
    assert str(refusal.value) == (
        f"--model_dir: {model.path}/best holds the best checkpoints of another model directory; pass that "
        f"directory to continue its training, or a new one with --warm_start_from={model.path}/best"
    )
