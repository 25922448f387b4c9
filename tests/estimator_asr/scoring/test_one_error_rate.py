"""Tests that the error rate on dev during training equals the error rate from `evaluate`."""

import dataclasses
import os

import pytest
import small_models
import small_records
import tensorflow as tf

from estimator_asr import evaluate
from estimator_asr.experiment import config, experiment, training_config
from estimator_asr.inputs import input_fn, splits
from estimator_asr.models.tasks import tasks


def spoil(record):
    """Makes the first token and character unknown, and adds a character to one of the utterances."""
    tokens = ["xi9", *record.pronunciation.split()[1:]]
    transcript = "\u9f98" + record.transcript[1:] + ("\u597d" if record.utterance_id.endswith("2") else "")
    return dataclasses.replace(
        record,
        pronunciation=" ".join(tokens),
        transcript=transcript,
        token_ids=small_records.TOKENS.encode(tokens),
        character_ids=small_records.CHARACTERS.encode(transcript),
    )


def make_model(path, kind):
    info = small_records.make_data(f"{path}/data", change=spoil)
    settings = experiment.ExperimentConfig.for_data(
        info,
        acoustic=small_models.WITHOUT_DROPOUT["acoustic"],
        language=small_models.WITHOUT_DROPOUT["language"],
        train=training_config.TrainConfig(model=kind),
    )
    return info, small_models.create_or_check(f"{path}/model", settings, f"{path}/data")


def evaluate_as_training(info, model, data_dir, favour):
    """Returns the task's error rate on dev, for random weights that favour <unk>; writes a checkpoint."""
    task = tasks.for_model(model)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        source = splits.read_split([info], [data_dir], "dev", model.config.spec)
        read = input_fn.build_input_fn(source, config.InputConfig(), training=False)
        features, labels = tf.compat.v1.data.make_one_shot_iterator(read()).get_next()
        value, update = task.forward(features, labels, False).ratios[task.spec.error_rate].metric()
        tf.compat.v1.train.create_global_step()
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.local_variables_initializer()])
        (bias,) = (v for v in tf.compat.v1.trainable_variables() if v.op.name == favour)
        first = tf.reshape(tf.one_hot(0, bias.shape.num_elements(), 100.0), bias.shape)
        session.run(bias.assign(first))
        tf.compat.v1.train.Saver().save(session, os.path.join(model.path, "model.ckpt"), 0)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                session.run(update)
        return float(session.run(value))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "favour", "measure"),
    [
        ("acoustic", "acoustic/ctc/bias", "token_error_rate"),
        ("language", "language/reading_bias", "character_error_rate"),
    ],
)
def test_dev_and_evaluate_count_the_same_errors(tmp_path, kind, favour, measure):
    info, model = make_model(str(tmp_path), kind)
    data_dir = str(tmp_path / "data")
    trained = evaluate_as_training(info, model, data_dir, favour)
    settings = evaluate.EvaluateConfig(
        model_dir=model.path, data_dir=(data_dir,), split="dev", output_dir=str(tmp_path / "report")
    )
    metrics = evaluate.evaluate(settings)
    assert "<unk>" in (tmp_path / "report" / "hypotheses.tsv").read_text("utf-8")
    assert metrics[measure]["errors"] >= 3  # an unknown token or character in each of three utterances
    assert trained == pytest.approx(metrics[measure]["rate"], rel=1e-6)
    if kind == "acoustic":
        assert trained == 1.0  # "<unk>" for references of one, two and three tokens
