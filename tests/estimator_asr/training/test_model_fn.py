import json
import math

import event_files
import numpy as np
import paths
import programs
import pytest
import small_models
import tensorflow as tf

from estimator_asr.experiment import estimator_api
from estimator_asr.inputs import buckets, input_fn, input_progress, splits
from estimator_asr.training import model_fn, plan

SOURCE = splits.Split("acoustic", (), {10: 16}, 1.0, 12, "float16", 3, "")
PROGRESS = input_progress.InputProgress(0, 0, "", buckets.Bucketing((10,), (8,), 2), 1)
HOOK = estimator_api.SessionRunHook()
PLAN = plan.TrainingPlan(SOURCE, 0, 10, PROGRESS)
COMMON_TAGS = {"total-loss", "learning-rate", "gradient-norm", "gradient-zero-fraction"}
both_kinds = pytest.mark.parametrize("kind", ["acoustic", "language"])


def build(tmp_path, kind, mode, **changes):
    """Calls the model_fn on a batch of the dev split; returns the EstimatorSpec and the batch's labels."""
    model, info, path = small_models.make_model(tmp_path, kind, **changes)
    source = splits.read_split([info], [path], "dev", model.config.spec)
    read = input_fn.build_input_fn(source, model.config.input, training=False)
    tf.compat.v1.set_random_seed(1)
    features, labels = tf.compat.v1.data.make_one_shot_iterator(read().repeat()).get_next()
    features["seed"] = tf.constant([1, 2], tf.int64)
    return model_fn.build_model_fn(model, PLAN, [lambda step: HOOK])(features, labels, mode), labels


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        yield


def start():
    session = tf.compat.v1.Session()
    session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.local_variables_initializer()])
    return session


@pytest.mark.long
@both_kinds
def test_the_predict_spec_returns_ids_counts_and_scores(tmp_path, kind):
    spec, _ = build(tmp_path, kind, estimator_api.ModeKeys.PREDICT)
    assert spec.loss is None and spec.train_op is None and list(spec.export_outputs) == ["serving_default"]
    ids, count = ("token_ids", "num_tokens") if kind == "acoustic" else ("character_ids", "num_characters")
    assert set(spec.predictions) == {ids, count, "score"}
    with start() as session:
        values = session.run(spec.predictions)
    assert [values[key].dtype for key in (ids, count, "score")] == [np.int32, np.int32, np.float32]
    batch = len(values["score"])
    assert values[count].shape == values["score"].shape == (batch,) and (values["score"] <= 0).all()
    for row, number in zip(values[ids], values[count]):
        assert (row[:number] >= 0).all() and (row[number:] == -1).all()


@pytest.mark.long
@both_kinds
def test_the_eval_spec_has_every_metric(tmp_path, kind):
    spec, _ = build(tmp_path, kind, estimator_api.ModeKeys.EVAL)
    assert spec.train_op is None and spec.loss.shape == []
    assert set(spec.eval_metric_ops) == small_models.FIGURES[kind]
    with start() as session:
        session.run([update for _, update in spec.eval_metric_ops.values()])
        values = session.run({key: value for key, (value, _) in spec.eval_metric_ops.items()})
    assert all(math.isfinite(value) and value >= 0 for value in values.values())


@pytest.mark.long
@both_kinds
def test_the_train_spec_lowers_the_loss_and_counts_steps(tmp_path, kind):
    spec, _ = build(tmp_path, kind, estimator_api.ModeKeys.TRAIN)
    assert spec.loss.dtype == tf.float32 and spec.loss.shape == [] and HOOK in spec.training_hooks
    summary = tf.compat.v1.summary.merge_all()
    with start() as session:
        tags = [value.tag for value in tf.compat.v1.Summary.FromString(session.run(summary)).value]
        assert sorted(tags) == sorted({*COMMON_TAGS, *small_models.FIGURES[kind]})
        losses = [session.run([spec.loss, spec.train_op])[0] for _ in range(18)]
        assert session.run(tf.compat.v1.train.get_global_step()) == 18
    assert np.mean(losses[-3:]) < np.mean(losses[:3])  # the dev split has three batches


@pytest.mark.long
@pytest.mark.parametrize("kind, first", [("acoustic", "Conv2D"), ("language", "MatMul")])
def test_bfloat16_on_gpus_is_used_only_in_the_encoder(tmp_path, kind, first, monkeypatch):
    losses = []
    for product_type in (tf.float32, tf.bfloat16):
        with tf.Graph().as_default() as graph:
            tf.compat.v1.train.create_global_step()
            monkeypatch.setattr(model_fn.strategies, "product_type", lambda *_, kind=product_type: kind)
            spec, _ = build(tmp_path / product_type.name, kind, estimator_api.ModeKeys.TRAIN)
            assert {v.dtype.base_dtype for v in tf.compat.v1.trainable_variables()} == {tf.float32}
            products = [op for op in graph.get_operations() if op.type in (first, "MatMul", "BatchMatMulV2")]
            halves = [op for op in products if _is_half(op)]
            assert all("encoder/" in op.name or "/layer_" in op.name for op in halves)
            assert any(op.type == first for op in halves) == (product_type == tf.bfloat16)
            assert halves == [] or product_type == tf.bfloat16
            with start() as session:
                losses.append([session.run([spec.loss, spec.train_op])[0] for _ in range(9)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.05)


def _is_half(op):
    return "gradients" not in op.name and op.outputs[0].dtype == tf.bfloat16


@pytest.mark.long
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_only_float16_has_a_loss_scale(tmp_path, precision):
    build(tmp_path, "language", estimator_api.ModeKeys.TRAIN, precision=precision)
    names = {variable.op.name for variable in tf.compat.v1.global_variables()}
    assert ("loss_scale/scale" in names) == (precision == "float16")


@pytest.mark.long
def test_the_loss_per_label_is_the_weighted_sum_of_its_parts(tmp_path):
    spec, labels = build(tmp_path, "acoustic", estimator_api.ModeKeys.TRAIN)
    with start() as session:
        fetches = [tf.compat.v1.summary.merge_all(), labels["num_tokens"], spec.loss]
        summary, num_labels, loss = session.run(fetches)
    values = tf.compat.v1.Summary.FromString(summary).value
    shown = {value.tag: event_files.to_number(value) for value in values}
    weight = small_models.ACOUSTIC.ctc_weight
    parts = [
        (weight, shown["ctc-loss"], num_labels.sum()),
        (1 - weight, shown["decoder-loss"], (num_labels + 1).sum()),  # the decoder also predicts the end
    ]
    total = sum(weight * loss * count for weight, loss, count in parts)
    assert shown["total-loss"] == pytest.approx(total, rel=1e-5)
    assert shown["avg-loss"] == pytest.approx(total / sum(part[0] * part[2] for part in parts), rel=1e-5)
    assert loss == pytest.approx(shown["avg-loss"], rel=1e-5)
    assert shown["learning-rate"] == pytest.approx(0.001)


def test_another_mode_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mode is 'dream', expected train, eval or infer"):
        build(tmp_path, "language", "dream")


@pytest.mark.long
def test_two_replicas_log_the_loss_of_one_replica_with_the_whole_batch():
    done = programs.run(paths.script("replica_programs.py"), "losses")
    assert done.returncode == 0, done.stderr[-3000:]
    of_one, of_two = json.loads(done.stdout.splitlines()[-1])
    assert of_one > 0.1 and of_two == pytest.approx(of_one, rel=1e-5)
