"""The acoustic model as a whole: shapes, shared vectors and causality of its heads."""

from __future__ import annotations

import dataclasses

import graph_variables
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import acoustic
from tfrecord_builder import errors

NUM_BINS, NUM_CLASSES = 8, 6
CONFIG = config_lib.AcousticConfig(
    local_ctc_weight=0.3,
    encoder_layers=1,
    encoder_units=8,
    encoder_inner_units=16,
    attention_heads=2,
    subsampling_channels=4,
)
PARTS = np.float32([[0, 0, 0], [1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])


class Model:
    """The model in its own graph, with its decoder."""

    def __init__(self, seed=None, token_parts=PARTS, config=CONFIG):
        with tf.Graph().as_default():
            tf.compat.v1.set_random_seed(1)
            self.fbank = tf.compat.v1.placeholder(tf.float32, [None, None, NUM_BINS])
            self.num_frames = tf.compat.v1.placeholder(tf.int32, [None])
            self.token_ids = tf.compat.v1.placeholder(tf.int32, [None, None])
            self.num_tokens = tf.compat.v1.placeholder(tf.int32, [None])
            self.outputs = acoustic.build(
                config,
                self.fbank,
                self.num_frames,
                num_classes=NUM_CLASSES,
                token_parts=token_parts,
                token_ids=self.token_ids,
                num_tokens=self.num_tokens,
                seed=seed,
            )
            self.names = [variable.op.name for variable in tf.compat.v1.global_variables()]
            self.session = tf.compat.v1.Session()
            self.session.run(tf.compat.v1.global_variables_initializer())

    def run(self, fetches, fbank, num_frames, token_ids, num_tokens):
        feeds = {self.fbank: fbank, self.num_frames: num_frames}
        return self.session.run(fetches, {**feeds, self.token_ids: token_ids, self.num_tokens: num_tokens})


def make_fbank(batch, num_frames):
    return np.random.default_rng(1).normal(size=[batch, num_frames, NUM_BINS])


def test_shapes_of_both_heads():
    model = Model()
    outputs = model.run(model.outputs, make_fbank(2, 21), [21, 9], [[1, 2, 3], [4, 0, 0]], [3, 1])
    assert outputs.ctc_logits.shape == (2, 6, NUM_CLASSES)
    assert outputs.num_frames.tolist() == [6, 3]
    assert outputs.decoder_logits.shape == (2, 4, NUM_CLASSES)
    assert outputs.local_logits.shape == (2, 6, NUM_CLASSES)


def test_no_decoder_without_labels_or_layers():
    assert Model(config=dataclasses.replace(CONFIG, decoder_layers=0)).outputs.decoder_logits is None
    with tf.Graph().as_default():
        outputs = acoustic.build(CONFIG, tf.zeros([1, 9, 8]), tf.constant([9]), num_classes=6)
        assert outputs.decoder_logits is None and outputs.local_logits is None
        names = {variable.op.name for variable in tf.compat.v1.global_variables()}
    assert names and not any("decoder" in name or "local" in name for name in names)


@pytest.mark.long
def test_all_variables_live_under_acoustic_and_inference_needs_no_others():
    names = set(Model().names)
    assert all(name.startswith("acoustic/") for name in names)
    assert set(Model(seed=[1, 2]).names) == names


@pytest.mark.long
@pytest.mark.parametrize("padding", [np.nan, np.inf])
def test_padded_frames_and_labels_change_nothing(padding):
    model = Model()
    fbank = make_fbank(1, 21)
    short = model.run(model.outputs, fbank, [21], [[1, 2]], [2])
    padded = np.full([2, 27, NUM_BINS], padding)
    padded[0, :21] = fbank[0]
    long = model.run(model.outputs, padded, [21, 0], [[1, 2, 5, 5], [0, 0, 0, 0]], [2, 0])
    np.testing.assert_allclose(short.ctc_logits, long.ctc_logits[:1, :6], atol=1e-5)
    np.testing.assert_allclose(short.local_logits, long.local_logits[:1, :6], atol=1e-5)
    np.testing.assert_allclose(short.decoder_logits, long.decoder_logits[:1, :3], atol=1e-5)
    assert all(np.isfinite(each).all() for each in tf.nest.flatten(long))


def test_decoder_sees_earlier_labels_alone():
    model = Model()
    first, second = (
        model.run(model.outputs.decoder_logits, make_fbank(1, 21), [21], [ids], [3])
        for ids in ([1, 2, 3], [1, 4, 3])
    )
    np.testing.assert_allclose(first[:, :2], second[:, :2], atol=1e-6)  # before and right after label 1
    assert np.abs(first[:, 2] - second[:, 2]).max() > 1e-4


@pytest.mark.long
def test_dropout_is_on_in_training_alone():
    logits = []
    for seed in (None, [1, 2], [1, 2], [1, 3]):
        model = Model(seed)
        logits.append(model.run(model.outputs.ctc_logits, make_fbank(1, 21), [21], [[1]], [1]))
    assert np.abs(logits[0] - logits[1]).max() > 1e-4
    np.testing.assert_array_equal(logits[1], logits[2])  # so a resumed training samples the same
    assert np.abs(logits[1] - logits[3]).max() > 1e-4


def test_level_of_the_recording_changes_nothing():
    model = Model()
    quiet, loud = (
        model.run(model.outputs.ctc_logits, make_fbank(1, 21) + gain, [21], [[1]], [1]) for gain in (0.0, 4.0)
    )
    np.testing.assert_allclose(quiet, loud, atol=1e-4)


def test_class_vector_is_its_own_plus_those_of_its_parts():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        vectors = acoustic.class_vectors(NUM_CLASSES, 4, PARTS)
        session.run(tf.compat.v1.global_variables_initializer())
        own, parts = session.run(tf.compat.v1.global_variables())
        vectors = session.run(vectors)
    # Two orders of adding three numbers differ by a rounding of the largest.
    np.testing.assert_allclose(vectors[1], own[1] + parts[0] + parts[2], rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(vectors[-1], own[-1])  # the blank


def test_shift_right_starts_with_the_boundary_and_hides_padding():
    arguments = [[1, 2], [3, 4]], [2, 1]
    previous = graph_variables.run(lambda: acoustic.shift_right(*map(tf.constant, arguments), 9))
    assert previous.tolist() == [[9, 1, 2], [9, 3, 9]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoder_units": 10}, "--encoder_units is 10, expected a multiple of 4, the number of attention"),
        (
            {"chunk_frames": 30},
            "--chunk_frames is 30, expected a multiple of 4 from 16 to 64; use 32, or leave the flag out",
        ),
        ({"chunk_frames": 12}, "--chunk_frames is 12, expected a multiple of 4 from 16 to 64; use"),
        ({"chunk_frames": 68}, "--chunk_frames is 68, expected a multiple of 4 from 16 to 64; use"),
    ],
)
def test_config_refuses_what_cannot_be_built(values, message):
    with pytest.raises(errors.UserError, match=message):
        config_lib.AcousticConfig(**values)
