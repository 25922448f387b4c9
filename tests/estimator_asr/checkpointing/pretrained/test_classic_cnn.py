from __future__ import annotations

import cnn_weights
import numpy as np
import pytest

from estimator_asr.checkpointing.pretrained import classic_cnn
from tfrecord_builder import errors


def test_six_convolutions_two_dense_layers_and_all_batch_norms_are_translated():
    found, remarks = classic_cnn.translate(cnn_weights.make_weights(6), "a.h5")
    scopes = [f"convolution_{i}_{j}" for i in range(3) for j in range(2)]
    norms = [f"batch_norm/{name}" for name in ("scale", "shift", "moving_mean", "moving_variance")]
    wanted = {f"acoustic/encoder/{scope}/{name}" for scope in scopes for name in ("kernel", *norms)}
    wanted |= {f"acoustic/encoder/project/{name}" for name in ("kernel", "bias")}
    assert set(found) == wanted | {"acoustic/ctc/class_vectors", "acoustic/ctc/bias"}
    assert found["acoustic/encoder/convolution_1_0/kernel"].flat[0] == 3  # the third convolution
    assert found["acoustic/encoder/convolution_2_1/batch_norm/moving_mean"][0] == -1.5  # less the bias
    assert remarks == ()


def test_the_output_kernel_is_transposed_and_the_bias_has_two_axes():
    found, _ = classic_cnn.translate(cnn_weights.make_weights(6), "a.h5")
    assert found["acoustic/ctc/class_vectors"][1, :3].tolist() == [1, 6, 11]
    assert found["acoustic/ctc/bias"].tolist() == [[0, 1, 2, 3, 4]]


def test_further_convolutions_are_left_out_with_the_dense_layer_that_reads_them():
    found, (remark,) = classic_cnn.translate(cnn_weights.make_weights(8), "a.h5")
    assert not any("project" in name for name in found)
    assert "acoustic/encoder/convolution_2_1/kernel" in found and "acoustic/ctc/bias" in found
    assert remark.startswith(
        "layers of the source that --encoder=cnn does not have: conv2d_6 [3, 3, 128, 128], norm_6 [128], "
    )
    assert remark.endswith("norm_7 [128], dense_1 [256, 16]")


def test_convolutions_without_batch_norm_are_remarked():
    found, remarks = classic_cnn.translate(cnn_weights.make_weights(6, with_norm=False), "a.h5")
    assert not any("batch_norm" in name for name in found)
    assert remarks == (
        "convolutions of the source without batch norm: ours is initialised, their biases are lost",
    )


def test_kinds_of_layers_follow_from_their_weights():
    kinds = {
        "a/kernel_1": np.zeros([3, 3, 1, 2]),
        "b/kernel": np.zeros([4, 2]),
        "c/moving_mean": np.zeros(2),
        "c/moving_variance": np.zeros(2),
        "d/kernel": np.zeros([4, 2]),
        "d/recurrent_kernel": np.zeros([2, 2]),
        "e/embeddings": np.zeros([4, 2]),
        "f/kernel": np.zeros([3, 1, 2]),
    }
    found = [(layer.name, layer.kind) for layer in classic_cnn.list_layers(kinds)]
    assert found == list(zip("abcdef", ("conv", "dense", "norm", "other", "other", "other")))


def test_a_model_without_convolution_or_dense_layer_is_refused():
    weights = cnn_weights.make_weights(6)
    dense = {name: value for name, value in weights.items() if "dense" in name}
    with pytest.raises(
        errors.UserError, match="a.h5: has 0 convolutions and 2 dense layers, expected an acoustic"
    ):
        classic_cnn.translate(dense, "a.h5")
    with pytest.raises(errors.UserError, match="has 6 convolutions and 0 dense layers"):
        classic_cnn.translate({name: weights[name] for name in weights if name not in dense}, "a.h5")
