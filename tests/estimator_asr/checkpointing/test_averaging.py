from __future__ import annotations

import numpy as np
import pytest
import small_checkpoints
import tensorflow as tf

from estimator_asr.checkpointing import averaging
from tfrecord_builder import errors


def save(tmp_path, step, **values):
    return small_checkpoints.save(tmp_path, step, {f"a/{name}": value for name, value in values.items()})


def test_floats_are_averaged_and_the_rest_is_from_the_last(tmp_path):
    prefixes = [
        save(tmp_path, 10, kernel=np.float32([[1, 2]]), num_updates=np.int64(3), name=np.array(b"old")),
        save(tmp_path, 20, kernel=np.float32([[2, 4]]), num_updates=np.int64(5), name=np.array(b"new")),
        save(tmp_path, 30, kernel=np.float32([[6, 3]]), num_updates=np.int64(9), name=np.array(b"newest")),
    ]
    values = averaging.average(prefixes)
    assert values["a/kernel"].tolist() == [[3, 3]] and values["a/kernel"].dtype == np.float32
    assert (values["a/num_updates"], values["a/name"], values["global_step"]) == (9, b"newest", 30)


def test_the_sum_is_made_in_float64(tmp_path):
    big, small = np.float32(2**24), np.float32(1)  # in float32, big + small is big
    prefixes = [save(tmp_path, step, w=value) for step, value in enumerate([big, small, small, -big])]
    assert averaging.average(prefixes)["a/w"] == 0.5


def test_slots_and_scalars_of_the_optimizer_are_left_out(tmp_path):
    values = {"w": np.float32([1]), "w/Adam": np.float32([9]), "norm/moving_mean": np.float32([2])}
    prefix = small_checkpoints.save(
        tmp_path, 1, {f"a/{name}": value for name, value in values.items()}, beta1_power=np.float32(0.5)
    )
    assert sorted(averaging.average([prefix])) == ["a/norm/moving_mean", "a/w", "global_step"]


def test_the_average_of_a_checkpoint_with_itself_is_identical(tmp_path):
    weights = np.random.default_rng(0).normal(size=[5, 7]).astype(np.float32)
    prefix = save(tmp_path, 1, w=weights)
    np.testing.assert_array_equal(averaging.average([prefix] * 3)["a/w"], weights)


def test_a_saver_restores_what_is_saved(tmp_path):
    averaging.save({"x": np.float32([7]), "global_step": np.int64(3)}, str(tmp_path / "model.ckpt-3"))
    assert small_checkpoints.continue_from(tmp_path) == 7
    assert tf.train.load_variable(str(tmp_path), "global_step") == 3


def test_checkpoints_of_different_models_are_refused(tmp_path):
    prefixes = [save(tmp_path, 1, w=np.zeros([2])), save(tmp_path, 2, w=np.zeros([3]))]
    said = "model.ckpt-1: has other variables than .*model.ckpt-2, expected the same model"
    with pytest.raises(errors.UserError, match=said):
        averaging.average(prefixes)
