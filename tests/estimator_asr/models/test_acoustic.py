"""The acoustic model as a whole: shapes, shared vectors and causality of its heads."""

import dataclasses

import graph_variables
import numpy as np
import pytest
import small_models
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import acoustic
from tfrecord_builder import errors

NUM_BINS, NUM_CLASSES = 8, 6
CONFIG = dataclasses.replace(small_models.ACOUSTIC, local_ctc_weight=0.3, encoder_units=8)
PARTS = np.float32([[0, 0, 0], [1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])
VECTOR, MATRIX = (tf.int32, [None]), (tf.int32, [None, None])


def make_network(seed=None, config=CONFIG):
    """Builds the model with its decoder; the inputs are fbank, num_frames, token_ids and num_tokens."""

    def build(fbank, num_frames, token_ids, num_tokens):
        labels = {"token_ids": token_ids, "num_tokens": num_tokens, "token_parts": PARTS}
        return acoustic.build(config, fbank, num_frames, num_classes=NUM_CLASSES, seed=seed, **labels)

    fbank = tf.float32, [None, None, NUM_BINS]
    return graph_variables.Network(build, fbank=fbank, num_frames=VECTOR, token_ids=MATRIX, num_tokens=VECTOR)


def make_fbank(batch, num_frames):
    return np.random.default_rng(1).normal(size=[batch, num_frames, NUM_BINS])


def test_shapes_of_both_heads():
    outputs = make_network()(make_fbank(2, 21), [21, 9], [[1, 2, 3], [4, 0, 0]], [3, 1])
    assert outputs.ctc_logits.shape == (2, 6, NUM_CLASSES)
    assert outputs.num_frames.tolist() == [6, 3]
    assert outputs.decoder_logits.shape == (2, 4, NUM_CLASSES)
    assert outputs.local_logits.shape == (2, 6, NUM_CLASSES)


def test_no_decoder_without_labels_or_layers():
    assert make_network(config=dataclasses.replace(CONFIG, decoder_layers=0)).outputs.decoder_logits is None
    with tf.Graph().as_default():
        outputs = acoustic.build(CONFIG, tf.zeros([1, 9, 8]), tf.constant([9]), num_classes=6)
        assert outputs.decoder_logits is None and outputs.local_logits is None
        names = {variable.op.name for variable in tf.compat.v1.global_variables()}
    assert names and not any("decoder" in name or "local" in name for name in names)


@pytest.mark.long
def test_all_variables_are_in_the_scope_acoustic_and_the_same_in_training():
    served, trained = ({v.op.name for v in make_network(seed).variables} for seed in (None, [1, 2]))
    assert all(name.startswith("acoustic/") for name in served)
    assert trained == served


@pytest.mark.long
@pytest.mark.parametrize("padding", [np.nan, np.inf])
def test_padded_frames_and_labels_change_nothing(padding):
    run, fbank = make_network(), make_fbank(1, 21)
    short = run(fbank, [21], [[1, 2]], [2])
    padded = np.full([2, 27, NUM_BINS], padding)
    padded[0, :21] = fbank[0]
    long = run(padded, [21, 0], [[1, 2, 5, 5], [0, 0, 0, 0]], [2, 0])
    np.testing.assert_allclose(short.ctc_logits, long.ctc_logits[:1, :6], atol=1e-5)
    np.testing.assert_allclose(short.local_logits, long.local_logits[:1, :6], atol=1e-5)
    np.testing.assert_allclose(short.decoder_logits, long.decoder_logits[:1, :3], atol=1e-5)
    assert all(np.isfinite(values).all() for values in tf.nest.flatten(long))


def test_the_decoder_sees_only_earlier_labels():
    run = make_network()
    first, second = (
        run(make_fbank(1, 21), [21], [ids], [3]).decoder_logits for ids in ([1, 2, 3], [1, 4, 3])
    )
    np.testing.assert_allclose(first[:, :2], second[:, :2], atol=1e-6)  # the changed label comes later
    assert np.abs(first[:, 2] - second[:, 2]).max() > 1e-4


@pytest.mark.long
def test_dropout_is_used_only_in_training_and_depends_on_the_seed():
    seeds = (None, [1, 2], [1, 2], [1, 3])
    logits = [make_network(seed)(make_fbank(1, 21), [21], [[1]], [1]).ctc_logits for seed in seeds]
    assert np.abs(logits[0] - logits[1]).max() > 1e-4
    np.testing.assert_array_equal(logits[1], logits[2])  # resumed training samples the same values
    assert np.abs(logits[1] - logits[3]).max() > 1e-4


def test_the_level_of_a_recording_changes_nothing():
    run = make_network()
    quiet, loud = (run(make_fbank(1, 21) + gain, [21], [[1]], [1]).ctc_logits for gain in (0.0, 4.0))
    np.testing.assert_allclose(quiet, loud, atol=1e-4)


def test_a_class_vector_is_the_sum_of_its_own_and_its_parts_vectors():
    def build():
        vectors = acoustic.class_vectors(NUM_CLASSES, 4, PARTS)
        return vectors, *tf.compat.v1.global_variables()

    vectors, own, parts = graph_variables.run(build)
    # The rounding error of a sum of three numbers depends on their order.
    np.testing.assert_allclose(vectors[1], own[1] + parts[0] + parts[2], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(vectors[-1], own[-1])  # the blank


def test_shift_right_starts_with_the_boundary_and_hides_padding():
    arguments = [[1, 2], [3, 4]], [2, 1]
    previous = graph_variables.run(lambda: acoustic.shift_right(*map(tf.constant, arguments), 9))
    assert previous.tolist() == [[9, 1, 2], [9, 3, 9]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoder_units": 10}, "units is 10, expected a multiple of 4, the number of attention"),
        (
            {"chunk_frames": 30},
            "is 30, expected a multiple of 4 from 16 to 64; use 32, or leave the flag out",
        ),
        ({"chunk_frames": 12}, "--chunk_frames is 12, expected a multiple of 4 from 16 to 64; use"),
        ({"chunk_frames": 68}, "--chunk_frames is 68, expected a multiple of 4 from 16 to 64; use"),
    ],
)
def test_settings_that_cannot_be_built_are_refused(values, message):
    with pytest.raises(errors.UserError, match=message):
        config_lib.AcousticConfig(**values)
