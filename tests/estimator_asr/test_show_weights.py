from __future__ import annotations

import h5py
import numpy as np
import programs
import pytest

from estimator_asr import show_weights
from tfrecord_builder import errors


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


def test_what_cannot_be_read_is_named_and_the_rest_shown(file):
    done = programs.run("estimator_asr.show_weights", "no.h5", file)
    assert done.returncode == 1 and "dense/kernel  [2, 2]" in done.stdout
    assert done.stderr.splitlines() == [
        "error: no.h5: does not exist, expected a model directory, checkpoint or Keras .h5 file"
    ]


def test_no_path_is_refused():
    with pytest.raises(errors.UserError, match="show_weights: no path is given, expected FILE_OR_DIR"):
        show_weights.main([])
