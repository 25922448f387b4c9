import os
import pathlib

import h5py
import numpy as np
import programs
import pytest
import tensorflow as tf

from estimator_asr import show_weights
from tfrecord_builder import errors

KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def file(tmp_path):
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = ["dense"]
        file.create_group("dense").attrs["weight_names"] = ["dense/kernel:0", "dense/bias:0"]
        file["dense/dense/kernel:0"] = np.float32([[3, 0], [0, 4]])
        file["dense/dense/bias:0"] = np.float32([np.nan])
    return path


def test_each_weight_has_its_shape_and_norms(file):
    assert list(show_weights.describe(file)) == [
        file,
        "  name          shape                       norm         rms",
        "  dense/kernel  [2, 2]                         5         2.5",
        "  dense/bias    [1]                          nan         nan",
        "  2 weights, 5 values",
    ]


@pytest.mark.long
def test_unreadable_paths_are_named_and_the_others_are_listed(file):
    done = programs.run("estimator_asr.show_weights", "no.h5", file)
    assert done.returncode == 1 and "dense/kernel  [2, 2]" in done.stdout
    assert done.stderr.splitlines() == ["error: no.h5 does not exist; check the path"]


def test_no_path_is_refused():
    with pytest.raises(errors.UserError, match="show_weights: FILE_OR_DIR is missing; pass"):
        show_weights.main([])


def write_keras(path, group_name=None, layers=(("z", "kernel:0"), ("a", "bias:0"))):
    """Writes a file in the layout of model.save (group_name is model_weights) or save_weights (no group)."""
    with h5py.File(path, "w") as file:
        group = file.create_group(group_name) if group_name else file
        group.attrs["layer_names"] = [b"input", *(layer.encode() for layer, _ in layers)]
        group.create_group("input").attrs["weight_names"] = []
        for layer, weight in layers:
            name = f"{layer}/{weight}"
            group.create_group(layer).attrs["weight_names"] = [name.encode()]
            group[layer][name] = KERNEL
    return str(path)


def write_checkpoint(directory):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("b", initializer=KERNEL)
        tf.compat.v1.get_variable("a", initializer=np.int64(7))
        tf.compat.v1.get_variable("text", initializer="not a number")
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver().save(session, os.path.join(directory, "model.ckpt"), 5)


@pytest.mark.parametrize("group", [None, "model_weights"])
def test_both_layouts_of_keras_are_read_in_layer_order(tmp_path, group):
    path = write_keras(tmp_path / "a.h5", group)
    source, weights = show_weights.read(path)
    assert source == path and list(weights) == ["z/kernel", "a/bias"]
    np.testing.assert_array_equal(weights["z/kernel"], KERNEL)


def test_weights_of_a_nested_model_keep_their_layer_names(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = ["model_1"]
        names = ["conv2d_1/kernel:0", "dense_1/kernel:0"]
        file.create_group("model_1").attrs["weight_names"] = names
        for name in names:
            file["model_1"][name] = KERNEL
    assert list(show_weights.read(str(path))[1]) == ["conv2d_1/kernel", "dense_1/kernel"]


def test_a_directory_a_prefix_and_a_file_of_a_checkpoint_are_the_same(tmp_path):
    prefix = write_checkpoint(tmp_path)
    for path in (str(tmp_path), prefix, f"{prefix}.index", f"{prefix}.data-00000-of-00001", f"{prefix}.meta"):
        source, weights = show_weights.read(path)
        assert source == prefix and list(weights) == ["a", "b"] and weights["a"] == 7
        np.testing.assert_array_equal(weights["b"], KERNEL)


@pytest.mark.parametrize("name", ["a.h5", "model.ckpt-9", "no/such/directory"])
def test_a_missing_path_is_refused(tmp_path, name):
    path = str(tmp_path / name)
    with pytest.raises(errors.UserError, match=f"{name} does not exist; check the path"):
        show_weights.read(path)


@pytest.mark.parametrize("state", [None, ""])
def test_a_directory_without_a_checkpoint_is_refused(tmp_path, state):
    if state is not None:
        (tmp_path / "checkpoint").write_text(state)
    with pytest.raises(errors.UserError, match="has no checkpoint; train first with"):
        show_weights.read(str(tmp_path))


def test_a_truncated_checkpoint_is_refused(tmp_path):
    prefix = write_checkpoint(tmp_path)
    os.truncate(f"{prefix}.data-00000-of-00001", 4)
    said = "model.ckpt-5: checkpoint cannot be read .*; choose an earlier one"
    with pytest.raises(errors.UserError, match=said):
        show_weights.read(str(tmp_path))


def truncate(path):
    os.truncate(path, os.path.getsize(path) // 2)


def remove_layer(path):
    with h5py.File(path, "a") as file:
        del file["z"]


@pytest.mark.parametrize(
    "damage", [truncate, remove_layer, lambda path: pathlib.Path(path).write_text("text")]
)
def test_damaged_keras_files_and_other_files_are_refused(tmp_path, damage):
    path = write_keras(tmp_path / "a.h5")
    damage(path)
    with pytest.raises(errors.UserError, match=r"a.h5 is not a complete Keras .h5 file \(.*; copy it again"):
        show_weights.read(path)


def test_hdf5_without_weights_is_refused(tmp_path):
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file["features"] = KERNEL
    for file in (path, write_keras(tmp_path / "b.h5", layers=())):
        with pytest.raises(errors.UserError, match=f"{file} has no layer weights; pass a trained model"):
            show_weights.read(file)


def test_a_keras_file_without_weight_names_is_refused(tmp_path):
    path = str(tmp_path / "a.weights.h5")
    with h5py.File(path, "w") as file:
        file.create_group("layers/dense_1/vars").create_dataset("0", data=np.ones(2))
    said = r"has numbers instead of weight names, like every \*.weights.h5 file; load it"
    with pytest.raises(errors.UserError, match=said):
        show_weights.read(path)
