"""The replay program, from the files of a recorded step to its output."""

import functools
import math
import os
import pathlib

import numpy as np
import pytest
import small_models
import small_records
import tensorflow as tf

from estimator_asr import replay
from estimator_asr.models import feature_norm
from estimator_asr.models.tasks import tasks
from estimator_asr.monitoring.diagnostics import nan_files, trial
from tfrecord_builder import errors
from tfrecord_builder.data import schema


@pytest.fixture(autouse=True)
def _eager_stays_on(monkeypatch):
    """Keeps eager execution on for the other tests in this process."""
    monkeypatch.setattr(tf.compat.v1, "disable_eager_execution", lambda: None)


@pytest.fixture(scope="module")
def nan_dir(tmp_path_factory):
    """A step-N directory as training writes it; the second utterance has a feature that is NaN."""
    model = small_models.make_without_dropout(str(tmp_path_factory.mktemp("am")), "acoustic")
    records = small_records.make_records("train", 3)
    records[1].fbank[5, 3] = math.nan
    serialized = [schema.make_example(record) for record in records]
    path = nan_files.step_directory(model.path, 812)
    report = {
        "step": 812,
        "position": [3, 17],
        "fbank_dtype": "float16",
        "loss": "nan",
        "gradient_norm": "nan",
    }
    save = functools.partial(save_weights, model)
    nan_files.write(path, report, model.config.to_json(), serialized, save)
    return path


def run(capsys, nan_dir):
    replay.main(replay.ReplayConfig(nan_dir=nan_dir))
    return capsys.readouterr().out.splitlines()


@pytest.mark.long
def test_the_cause_is_named_from_the_files_alone(nan_dir, capsys):
    lines = run(capsys, nan_dir)
    assert lines[0] == "step 812: batch 17 of epoch seed 3, 3 utterances"
    assert lines[1] == "loss nan (in training nan), gradient norm nan (in training nan)"
    first = "first tensor with NaN or Inf: features/fbank:0, computed by Placeholder in the forward pass of "
    assert lines[2] == f"{first}features"
    assert lines[4] == "  utterances: train001"
    assert any(line.startswith("likely cause: the input contains NaN or Inf") for line in lines)
    rows = [line.split("\t") for line in lines[-3:]]
    assert [row[:2] for row in rows] == [["train000", "16"], ["train001", "33"], ["train002", "50"]]
    assert [math.isfinite(float(row[3])) for row in rows] == [True, False, True]


@pytest.mark.long
def test_the_session_is_set_up_as_in_training(nan_dir, monkeypatch):
    configs, session = [], tf.compat.v1.Session

    def open_session(graph=None, config=None):
        if graph:  # the session that reads the batch
            return session(graph=graph, config=config)
        configs.append(config)
        raise errors.UserError("opened")

    monkeypatch.setattr(tf.compat.v1, "Session", open_session)
    with pytest.raises(errors.UserError, match="opened"):
        replay.main(replay.ReplayConfig(nan_dir=nan_dir))
    rewrites = configs[0].graph_options.rewrite_options
    assert rewrites.layout_optimizer == rewrites.OFF


@pytest.mark.long
def test_settings_are_those_of_the_recorded_run(nan_dir, monkeypatch, capsys):
    config = pathlib.Path(nan_dir).parent.parent / "config.json"
    text = config.read_text()
    config.write_text(text.replace('"encoder_layers": 1', '"encoder_layers": 2'))
    models = []

    def fake(model, checkpoint, features, labels):
        models.append(model)
        return replay.Replay(1.0, 1.0, None, [1.0] * 3)

    monkeypatch.setattr(replay, "replay", fake)
    try:
        run(capsys, nan_dir)
    finally:
        config.write_text(text)
    assert models[0].config.acoustic.encoder_layers == 1


def test_a_finite_replay_lists_what_it_omits():
    result = replay.Replay(1.5, 2.5, None, [1.0])
    report = {"step": 3, "position": [1, 0], "loss": "inf", "gradient_norm": 2.5}
    lines = replay.describe(report, [nan_files.BatchRow("a", "s", 4, 1)], result)
    assert lines[1] == "loss 1.5 (in training inf), gradient norm 2.5 (in training 2.5)"
    said = "every tensor is finite in the replay, so the cause is something that the replay leaves out: "
    assert lines[2].startswith(said)


def test_a_directory_must_be_given():
    with pytest.raises(errors.UserError, match=r"--nan_dir is missing; pass it \(a step-N directory"):
        replay.ReplayConfig()


RECORDS = small_records.make_records("train", 3)


def make_batch():
    part = small_models.make_part(RECORDS, range(3))
    return part, {key: value for key, value in part.items() if key != "seed"}


def save_weights(model, path, changes=()):
    """Saves initial weights, some of them with another value; returns the checkpoint's path prefix."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        tasks.for_model(model).forward(*trial.placeholders(make_batch()), True)
        session.run(tf.compat.v1.global_variables_initializer())
        for name, value in changes:
            (variable,) = (v for v in tf.compat.v1.global_variables() if v.op.name == name)
            session.run(variable.assign(tf.fill(variable.shape, value)))
        return tf.compat.v1.train.Saver().save(session, path, write_meta_graph=False, write_state=False)


def make_checkpoint(model, changes=()):
    return save_weights(model, os.path.join(model.path, "model.ckpt"), changes)


def run_batch(tmp_path, kind, changes=()):
    model = small_models.make_without_dropout(str(tmp_path), kind)
    return replay.replay(model, make_checkpoint(model, changes), *make_batch())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["acoustic", "language"])
def test_a_finite_batch_has_a_loss_and_no_finding(tmp_path, kind):
    result = run_batch(tmp_path, kind)
    assert result.loss > 0 and result.gradient_norm > 0 and result.finding is None
    assert len(result.utterance_losses) == 3 and np.isfinite(result.utterance_losses).all()


@pytest.mark.long
def test_weights_with_nan_are_named(tmp_path):
    name = "language/layer_0/feed_forward/inner/kernel"
    result = run_batch(tmp_path, "language", changes=[(name, math.inf)])
    assert (result.finding.tensor, result.finding.op) == (name, "ReadVariableOp")
    assert result.finding.layer == "language/layer_0/feed_forward/inner"
    assert math.isnan(result.gradient_norm)  # the loss may be finite, because a fused ReLU turns NaN into 0


@pytest.mark.long
def test_a_planted_logarithm_of_zero_is_named_with_its_layer(tmp_path, monkeypatch):
    normalise = feature_norm.normalise

    def broken(fbank, num_frames, *arguments):
        is_long = tf.cast(num_frames > 40, tf.float32)  # only the third utterance
        return normalise(fbank, num_frames, *arguments) + tf.math.log(1.0 - is_long)[:, None, None]

    monkeypatch.setattr(feature_norm, "normalise", broken)
    result = run_batch(tmp_path, "acoustic")
    assert (result.finding.op, result.finding.layer, result.finding.rows) == ("Log", "acoustic", [2])
    assert [math.isfinite(loss) for loss in result.utterance_losses] == [True, True, False]


@pytest.mark.long
def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    model = small_models.make_without_dropout(str(tmp_path / "one"), "language")
    other = small_models.make_without_dropout(str(tmp_path / "other"), "acoustic")
    said = r"cannot be loaded into the model whose .*\(it belongs to another model\)"
    with pytest.raises(errors.UserError, match=said):
        replay.replay(other, make_checkpoint(model), *make_batch())


@pytest.mark.long
def test_a_truncated_checkpoint_is_refused_in_one_sentence(tmp_path):
    model = small_models.make_without_dropout(str(tmp_path), "acoustic")
    checkpoint = make_checkpoint(model)
    os.truncate(f"{checkpoint}.data-00000-of-00001", 100)
    said = r"cannot be loaded into the model whose [^\n]+ \([^\n]+\); pass"
    with pytest.raises(errors.UserError, match=said) as error:
        replay.replay(model, checkpoint, *make_batch())
    assert "Graph execution" not in str(error.value)
