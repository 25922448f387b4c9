"""The acoustic model as a whole: shapes, shared vectors and causality of its heads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import spec_augment
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


def test_all_variables_live_under_acoustic_and_inference_needs_no_others():
    names = set(Model().names)
    assert all(name.startswith("acoustic/") for name in names)
    assert set(Model(seed=[1, 2]).names) == names


def test_padded_frames_and_labels_change_nothing():
    model = Model()
    fbank = make_fbank(1, 21)
    short = model.run(model.outputs, fbank, [21], [[1, 2]], [2])
    padded = np.pad(fbank, [[0, 0], [0, 6], [0, 0]], constant_values=50.0)
    long = model.run(model.outputs, padded, [21], [[1, 2, 5, 5]], [2])
    np.testing.assert_allclose(short.ctc_logits, long.ctc_logits[:, :6], atol=1e-5)
    np.testing.assert_allclose(short.decoder_logits, long.decoder_logits[:, :3], atol=1e-5)


@pytest.mark.parametrize("padding", [np.nan, np.inf])
def test_nan_at_padding_has_the_outputs_of_zeros(padding):
    model = Model(seed=[1, 2])
    fbank = make_fbank(3, 24)
    logits = []
    for value in (0.0, padding):
        fbank[0, 21:] = fbank[1, 9:] = fbank[2] = value
        outputs = model.run(model.outputs, fbank, [21, 9, 0], [[1, 2], [3, 0], [0, 0]], [2, 1, 0])
        logits.append(tf.nest.flatten(outputs))
    for wanted, got in zip(*logits):
        assert np.isfinite(wanted).all()
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_normalise_of_half_floats_has_float32_statistics(dtype):
    fbank = np.full([2, 9000, 1], 15.0)  # their sum is more than float16 holds
    fbank[:, ::2] = 17.0
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = session.run(acoustic.normalise(tf.cast(fbank, dtype), tf.constant([9000, 0])))
    np.testing.assert_allclose(values[0, :2], [[1], [-1]], atol=0.01)
    np.testing.assert_array_equal(values[1], 0)


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


def test_normalise_gives_each_bin_of_the_real_frames_mean_0_and_standard_deviation_1():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fbank = tf.constant([[[1.0, 5.0], [3.0, 9.0], [100.0, 100.0]]])
        values = session.run(acoustic.normalise(fbank, tf.constant([2])))
    np.testing.assert_allclose(values, [[[-1, -1], [1, 1], [0, 0]]], atol=0.01)


def test_normalise_hears_digital_silence_as_60_db_below_the_loudest():
    silent, speech = -15.9, 20.0
    floor = speech - 6 * np.log(10.0)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fbanks = [[[value], [speech], [18.0]] for value in (silent, floor)]
        values = session.run(acoustic.normalise(tf.constant(fbanks), tf.constant([3, 3])))
    np.testing.assert_allclose(values[0], values[1], atol=1e-6)


def fill_bands(fbank, num_frames=None):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        num_frames = [fbank.shape[1]] * len(fbank) if num_frames is None else num_frames
        tensors = [
            acoustic.normalise(tf.constant(fbank), tf.constant(num_frames), fill) for fill in (False, True)
        ]
        return session.run(tensors)


def test_an_empty_bin_is_the_mean_of_the_others_the_nearest_first():
    """Bins 0 and 1 have speech, the others are 41 dB below it: beyond a codec's bandwidth."""
    speech = make_fbank(1, 30)[..., :2]
    quiet = np.full([1, 30, 2], speech.max() - 4.1 * np.log(10.0), np.float32)
    quiet[0, 7] -= 1.0  # and not constant
    plain, filled = fill_bands(np.concatenate([speech, quiet], axis=2))
    np.testing.assert_array_equal(filled[..., :2], plain[..., :2])
    near, far = np.exp(-1 / 8), np.exp(-2 / 8)
    np.testing.assert_allclose(
        filled[..., 2], (near * plain[..., 1] + far * plain[..., 0]) / (near + far), atol=1e-6
    )
    assert np.abs(plain[..., 2:]).max() > 2  # what normalisation makes of a bin without content


@pytest.mark.parametrize("is_digital_silence", [False, True])
def test_a_bin_that_is_masked_stays_masked_beside_an_empty_one(is_digital_silence):
    """Masks are the mean of their bin, far below its peak; empty bins are filled as ever."""
    fbank = np.random.default_rng(0).normal(10, 1, [1, 200, 8]).astype(np.float32)
    fbank[:, ::20] += 15.0  # a mean is 15 below a peak
    fbank[..., 6:] = -15.9 if is_digital_silence else fbank[..., 6:] - 20.0
    config = config_lib.InputConfig(time_masks=0, frequency_masks=1, frequency_mask_bins=2)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        num_frames = tf.constant([200])
        draws = spec_augment.Draws(tf.zeros([1, 0, 2]), tf.constant([[[0.99, 0.5]]]))  # bins 3 and 4
        masked = spec_augment.mask_features(tf.constant(fbank), num_frames, config, draws)
        found = session.run(acoustic.normalise(masked, num_frames, fill_bands=True))
    np.testing.assert_allclose(found[..., 3:5], 0, atol=1e-4)
    assert np.all(np.std(found, axis=1)[0, [0, 1, 2, 5, 6, 7]] > 0.3)


def test_a_bin_within_40_db_of_the_loudest_stays():
    fbank = make_fbank(1, 30)[..., :2]
    fbank[..., 1] += fbank[..., 0].max() - 3.9 * np.log(10.0) - fbank[..., 1].max()
    plain, filled = fill_bands(fbank)
    np.testing.assert_array_equal(plain, filled)


def test_the_bandwidth_of_a_recording_hardly_changes_its_features():
    """The upper quarter of the band follows the speech, as fricatives and silence do, or is missing."""
    whole = np.repeat(make_fbank(1, 200)[..., :1], 80, axis=2) + 0.3 * np.random.default_rng(0).normal(
        size=[1, 200, 80]
    )
    whole = whole.astype(np.float32)
    narrow = whole.copy()
    narrow[..., 60:] -= 20.0
    (_, want), (cut, got) = fill_bands(whole), fill_bands(narrow)
    assert np.mean(np.square(got - want)[..., 60:]) < 0.15 < 0.9 < np.mean(np.square(cut - want)[..., 60:])
    np.testing.assert_array_equal(got[..., :60], want[..., :60])


def test_padding_and_empty_utterances_are_filled_with_zeros():
    fbank = make_fbank(2, 12)
    fbank[..., 3] -= 30.0
    fbank[0, 9:] = np.nan
    _, filled = fill_bands(fbank, [9, 0])
    assert np.isfinite(filled).all() and filled[0, :9].any()
    np.testing.assert_array_equal(filled[0, 9:], 0)
    np.testing.assert_array_equal(filled[1], 0)


def test_normalise_of_an_empty_utterance_is_zero():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = session.run(acoustic.normalise(tf.ones([1, 3, 2]), tf.constant([0])))
    np.testing.assert_array_equal(values, np.zeros([1, 3, 2]))


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
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        previous = session.run(acoustic.shift_right(tf.constant([[1, 2], [3, 4]]), tf.constant([2, 1]), 9))
    assert previous.tolist() == [[9, 1, 2], [9, 3, 9]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoder_units": 10, "attention_heads": 4}, "--encoder_units is 10, .* --attention_heads=4"),
        (
            {"chunk_frames": 30},
            "--chunk_frames is 30, expected a multiple of 4 from 16 to 64; take 32, or leave it out",
        ),
        ({"chunk_frames": 12}, "--chunk_frames is 12, expected a multiple of 4 from 16 to 64; take"),
        ({"chunk_frames": 68}, "--chunk_frames is 68, expected a multiple of 4 from 16 to 64; take"),
        ({"conv_kernel_size": 4}, "--conv_kernel_size is 4, expected an odd number"),
    ],
)
def test_config_refuses_what_cannot_be_built(values, message):
    with pytest.raises(errors.UserError, match=message):
        config_lib.AcousticConfig(**values)
