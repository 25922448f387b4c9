import dataclasses
import os
import pathlib

import pytest
import small_checkpoints
import small_models
import tensorflow as tf

from estimator_asr.training import loop
from estimator_asr.training.checkpointing import recovery
from tfrecord_builder import errors


@pytest.mark.long
def test_epochs_end_training_and_a_finished_model_has_nothing_to_do(tmp_path, log):
    model, infos, dirs = small_models.make_for_loop(tmp_path, train_epochs=1.5)
    loop.train(model, infos, dirs)
    # An epoch has 1 batch of 4 utterances with 1 token, and 4 batches of 2 utterances with 2 or 3 tokens.
    assert small_models.latest_step(model) == 8
    text = "\n".join(log)
    assert "12 utterances, " in text and "5 batches per epoch in 2 buckets, 2.4 utterances per step" in text
    assert "training: 8 steps (1.6 epochs), 1 replica(s)" in text
    assert any(line.startswith("dev at step 8: ") and "character-error-rate" in line for line in log)
    assert [path.name for path in pathlib.Path(model.path, "best").glob("*.index")] == ["model.ckpt-8.index"]
    loop.train(model, infos, dirs)
    assert log[-1] == f"{model.path}: training is already at step 8 of 8; nothing to do"


@pytest.mark.long
def test_a_last_evaluation_that_was_interrupted_is_done_by_the_next_run(tmp_path, log):
    model, infos, dirs = small_models.make_for_loop(tmp_path, train_steps=3)
    loop.train(model, infos, dirs)
    os.remove(os.path.join(model.path, "evaluations.json"))
    del log[:]
    loop.train(model, infos, dirs)
    assert any(line.startswith("dev at step 3: ") for line in log) and small_models.latest_step(model) == 3


def test_a_damaged_record_ends_training_with_one_sentence(tmp_path):
    model, infos, dirs = small_models.make_for_loop(tmp_path, train_steps=50)
    small_checkpoints.flip(min(pathlib.Path(dirs[0]).glob("train-*.tfrecord")), 40)
    sentence = "data: a shard of split train or dev is damaged .*; then copy or build the data again"
    with pytest.raises(errors.UserError, match=sentence):
        loop.train(model, infos, dirs)


@pytest.mark.long
def test_a_checkpoint_cut_short_falls_back_to_the_one_before(tmp_path, log):
    options = {"train_steps": 4, "save_checkpoints_steps": 2}
    model, infos, dirs = small_models.make_for_loop(tmp_path, [("train", 12)], **options)
    loop.train(model, infos, dirs)
    small_checkpoints.DAMAGES["data cut"](f"{model.path}/model.ckpt-4")
    del log[:]
    loop.train(model, infos, dirs)
    assert any("model.ckpt-4 cannot be read" in line and "from model.ckpt-2" in line for line in log)
    assert f"{model.path}: continues from step 2" in log
    assert small_models.latest_step(model) == 4


@pytest.mark.long
def test_without_a_dev_split_nothing_is_evaluated(tmp_path, log):
    model, infos, dirs = small_models.make_for_loop(tmp_path, splits=[("train", 6)], train_steps=3)
    loop.train(model, infos, dirs)
    assert f"{dirs[0]}: there is no dev split, so the model will not be evaluated during training" in log
    assert small_models.latest_step(model) == 3
    assert not os.path.exists(os.path.join(model.path, "best"))
    loop.train(model, infos, dirs)
    assert log[-1] == f"{model.path}: training is already at step 3 of 3; nothing to do"


def test_a_checkpoint_of_another_vocabulary_size_is_refused_before_training(tmp_path):
    model, infos, dirs = small_models.make_for_loop(tmp_path, train_steps=1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("language/characters", [9, 16])
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, os.path.join(model.path, "model.ckpt"), 1)
    with pytest.raises(errors.UserError, match="output layer has 9 classes instead of 6"):
        loop.train(model, infos, dirs)


def test_a_run_that_an_observer_refuses_changes_nothing(tmp_path):
    model, infos, dirs = small_models.make_for_loop(tmp_path, train_steps=3)

    def refuse(plan, clock):
        raise errors.UserError("data: labels look one-hot, expected token ids; build the data again.")

    other = dataclasses.replace(model, config=dataclasses.replace(model.config, token_type="other"))
    before = {path.name: path.read_bytes() for path in pathlib.Path(model.path).iterdir()}
    with pytest.raises(errors.UserError, match="labels look one-hot"):
        loop.train(other, infos, dirs, observe=refuse)
    assert {path.name: path.read_bytes() for path in pathlib.Path(model.path).iterdir()} == before


class Estimator:
    def train(self, input_fn, hooks, max_steps, saving_listeners):
        self.hooks = hooks


def test_no_hook_comes_after_the_saver_whose_listener_raises_after_sigterm(tmp_path, monkeypatch):
    estimator = Estimator()
    monkeypatch.setattr(loop.estimator_api, "Estimator", lambda model_fn, config: estimator)
    loop.train(*small_models.make_for_loop(tmp_path, splits=[("train", 6)], train_steps=3))
    assert isinstance(estimator.hooks[-1], recovery.RegularSaver)
