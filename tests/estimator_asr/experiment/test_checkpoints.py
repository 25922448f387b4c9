import contextlib
import os
import pathlib

import numpy as np
import pytest
import small_checkpoints
import small_models
import small_records
import tensorflow as tf

from estimator_asr.experiment import checkpoints, experiment, training_config
from tfrecord_builder import errors


@pytest.fixture
def make_model(tmp_path):
    def make(kind):
        path = str(tmp_path / "data")
        info = small_records.make_data(path)
        settings = experiment.ExperimentConfig.for_data(info, train=training_config.TrainConfig(model=kind))
        return small_models.create_or_check(str(tmp_path / "model"), settings, path)

    return make


def test_no_checkpoint_is_refused_and_the_newest_is_found(tmp_path):
    with pytest.raises(errors.UserError, match="has no checkpoint; train first with"):
        checkpoints.latest(str(tmp_path))
    prefixes = [small_checkpoints.save(tmp_path, step) for step in (9, 10)]
    assert checkpoints.latest(str(tmp_path)) == prefixes[1] == str(tmp_path / "model.ckpt-10")
    assert checkpoints.global_step(prefixes[1]) == 10
    assert checkpoints.list_checkpoints(str(tmp_path)) == prefixes  # 9 before 10


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b"model_checkpoint_path model", b"nothing: 1"])
def test_an_invalid_state_names_nothing(tmp_path, content):
    small_checkpoints.save(tmp_path, 1)
    (tmp_path / "checkpoint").write_bytes(content)
    assert checkpoints.stated(str(tmp_path)) is None


def test_the_state_moves_with_its_directory(tmp_path):
    small_checkpoints.save(tmp_path / "here", 3)
    os.rename(tmp_path / "here", tmp_path / "there")
    assert checkpoints.stated(str(tmp_path / "there")) == str(tmp_path / "there" / "model.ckpt-3")


def test_only_names_of_checkpoints_are_listed(tmp_path):
    prefix = small_checkpoints.save(tmp_path, 3)
    for name in ("model.ckpt-4_temp", "model.ckpt-x.index", "model.ckpt-30.index.tmp", "graph.pbtxt"):
        (tmp_path / name).touch()
    assert checkpoints.list_checkpoints(str(tmp_path)) == [prefix]
    names = [os.path.basename(path) for path in checkpoints.list_files(prefix)]
    assert names == ["model.ckpt-3.data-00000-of-00001", "model.ckpt-3.index"]
    assert checkpoints.list_checkpoints(str(tmp_path / "nowhere")) == []


def test_the_step_is_in_the_name():
    assert checkpoints.step_of("a/model.ckpt-120") == 120
    assert checkpoints.step_of("a/variables/variables") == -1


@pytest.mark.parametrize("damage", small_checkpoints.DAMAGES)
def test_every_kind_of_damage_is_found(tmp_path, damage):
    prefix = small_checkpoints.save(tmp_path, 3)
    assert checkpoints.read_shapes(prefix) == {"global_step": [], "x": [1]}
    small_checkpoints.DAMAGES[damage](prefix)
    said = "model.ckpt-3: checkpoint cannot be read .*; choose an earlier one, or run train again"
    with pytest.raises(checkpoints.DamagedError, match=said):
        checkpoints.read_shapes(prefix)


CLASSES = {"acoustic": ("acoustic/ctc/bias", [1, 6]), "language": ("language/characters", [6, 4])}


@pytest.mark.parametrize(
    "kind, variable, shape, said",
    [
        (
            "acoustic",
            "acoustic/ctc/bias",
            [1, 9],
            r"the output layer has 9 classes instead of 6 \(5 tokens in tokens.txt and the blank\), "
            "because the checkpoint was trained with another vocabulary",
        ),
        (
            "language",
            "language/characters",
            [7, 4],
            r"the output layer has 7 classes instead of 6 \(6 characters in characters.txt\)",
        ),
        (
            "acoustic",
            "language/characters",
            [6, 4],
            "no variable acoustic/ctc/bias, so it is not a checkpoint of the acoustic model",
        ),
    ],
)
def test_a_checkpoint_with_another_vocabulary_or_model_is_refused(make_model, kind, variable, shape, said):
    model, (name, right) = make_model(kind), CLASSES[kind]
    checkpoints.check(small_checkpoints.save(model.path, 1, {name: np.zeros(right)}), model)
    with pytest.raises(errors.UserError, match=said):
        checkpoints.check(small_checkpoints.save(model.path, 2, {variable: np.zeros(shape)}), model)


@pytest.mark.parametrize(
    "name, said",
    [
        ("a/bias", r"model.ckpt-1: variable a/bias has shape \[2\] instead of \[3\], because"),
        ("a/scale", r"variable a/scale is missing, .*; train .* with --warm_start_from=.*/model, which"),
    ],
)
def test_a_variable_that_does_not_fit_is_named(make_model, tmp_path, name, said):
    model = make_model("acoustic")
    checkpoint = small_checkpoints.save(model.path, 1, {"a/bias": np.zeros(2, np.float32)})
    with tf.Graph().as_default():
        fitting = [tf.compat.v1.get_variable(each, [2]) for each in ("a/bias", "a/bias/replica_1")]
    checkpoints.check_variables(checkpoint, model, fitting)
    with tf.Graph().as_default():
        other = tf.compat.v1.get_variable(name, [3])
    for nothing in (None, str(tmp_path / "model.ckpt-9")):
        checkpoints.check_variables(nothing, model, [other])
    with pytest.raises(errors.UserError, match=said):
        checkpoints.check_variables(checkpoint, model, [*fitting, other])


def test_optimizer_slots_and_scalars_are_not_model_variables():
    model = ["a/kernel", "a/kernel_2", "a/norm/mean", "global_step"]
    slots = ["a/kernel/Adam", "a/kernel/Adam_1", "a/kernel_2/Momentum", "beta1_power", "beta2_power"]
    assert checkpoints.find_model_variables(model + slots) == model


@pytest.mark.parametrize(
    "others, optimizer, precision, said",
    [
        (
            (),
            "adam",
            "float32",
            "weights but no optimizer state, so training cannot continue from it; train a",
        ),
        (
            ["a/w/Momentum"],
            "adam",
            "float32",
            "the state of an optimizer other than adam; pass the --optimizer",
        ),
        (
            ["a/w/Momentum"],
            "momentum",
            "float16",
            "no loss scale, which --precision=float16 needs; pass the --p",
        ),
        (["a/w/Adam"], "adam", "bfloat16", None),
        (["a/w/Momentum", "loss_scale/scale"], "momentum", "float16", None),
        (["a/w/Momentum", "loss_scale/scale"], "momentum", "float32", None),
    ],
)
def test_training_continues_only_with_the_state_that_it_needs(tmp_path, others, optimizer, precision, said):
    checkpoint = small_checkpoints.save(tmp_path, 1, dict.fromkeys(["a/w", *others], np.float32([1])))
    with contextlib.ExitStack() as stack:
        if said:
            match = f"contains {said}.* with --warm_start_from={tmp_path}$"
            stack.enter_context(pytest.raises(errors.UserError, match=match))
        checkpoints.require_optimizer(checkpoint, optimizer, precision)


def test_a_state_in_a_relative_directory_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_checkpoints.save("model", 5)
    assert pathlib.Path(checkpoints.latest("model")) == pathlib.Path("model/model.ckpt-5")
