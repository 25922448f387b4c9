"""Every encoder: a quarter of the frames, and independence of padding."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import acoustic, encoders, layers, normalisation, streaming
from tfrecord_builder.audio import pretrained_encoder

NUM_BINS = 8
CONFIG = config_lib.AcousticConfig(
    encoder_layers=2,
    encoder_units=8,
    encoder_inner_units=16,
    attention_heads=2,
    subsampling_channels=4,
    conv_kernel_size=5,
    acoustic_dropout=0.0,
    trainable_blocks=1,
    pretrained=pretrained_encoder.Applied(
        pretrained_encoder.PretrainedEncoder("whisper", NUM_BINS, 8, 16, heads=2, layers=3, sha256=""), (1, 2)
    ),
)
# All families of pretrained encoders have one encoder on top of them.
every_encoder = pytest.mark.parametrize("name", sorted(set(acoustic.ENCODERS) - {"hubert", "wav2vec2"}))

SEED = (1, 2)


class Model:
    """An encoder in its own graph, fed with lists of utterances [num_frames, NUM_BINS]."""

    def __init__(self, name, training=False):
        with tf.Graph().as_default():
            tf.compat.v1.set_random_seed(1)
            self.fbank = tf.compat.v1.placeholder(tf.float32, [None, None, NUM_BINS])
            self.num_frames = tf.compat.v1.placeholder(tf.int32, [None])
            config = dataclasses.replace(CONFIG, encoder=name)
            self.encoding = acoustic.ENCODERS[name].build(
                config, self.fbank, self.num_frames, SEED if training else None
            )
            self.updates = [v.assign_add(change) for v, change in normalisation.pending_updates()]
            loss = tf.reduce_sum(self.encoding.outputs[:, :, 0] ** 2)
            self.averages = [v for v in tf.compat.v1.global_variables() if not v.trainable]
            self.variables = tf.compat.v1.trainable_variables()
            self.gradients = tf.gradients(loss, self.variables)
            self.session = tf.compat.v1.Session()
            self.session.run(tf.compat.v1.global_variables_initializer())

    def run(self, fetches, utterances, num_padding=0, padding=np.nan):
        longest = max(map(len, utterances)) + num_padding
        fbank = np.full([len(utterances), longest, NUM_BINS], padding)
        for row, utterance in zip(fbank, utterances):
            row[: len(utterance)] = utterance
        feeds = {self.fbank: fbank, self.num_frames: [len(utterance) for utterance in utterances]}
        return self.session.run(fetches, feeds)


@functools.cache
def get_model(name, training=False):
    return Model(name, training)


def make_utterances(*lengths):
    rng = np.random.default_rng(1)
    return [rng.normal(size=[length, NUM_BINS]) for length in lengths]


@pytest.mark.long
@every_encoder
def test_outputs_are_a_quarter_of_the_frames_rounded_up(name):
    model = get_model(name)
    for num_frames, num_subsampled in [(1, 1), (4, 1), (5, 2), (22, 6), (23, 6), (24, 6), (25, 7)]:
        encoding = model.run(model.encoding, make_utterances(num_frames))
        assert encoding.outputs.shape == (1, num_subsampled, CONFIG.encoder_units)
        assert encoding.num_frames.tolist() == [num_subsampled]


@pytest.mark.long
@every_encoder
@pytest.mark.parametrize("num_padding", [0, 1, 2, 3, 8])
def test_padding_changes_nothing(name, num_padding):
    utterances = make_utterances(21, 30, 5)
    model = get_model(name)
    batch = model.run(model.encoding, utterances, num_padding)
    for row, num_subsampled, mask, utterance in zip(batch.outputs, batch.num_frames, batch.mask, utterances):
        alone = model.run(model.encoding.outputs, [utterance])[0]
        assert len(alone) == num_subsampled == mask.sum()
        np.testing.assert_allclose(row[:num_subsampled], alone, atol=1e-5)
        assert np.all(row[num_subsampled:] == 0)


@pytest.mark.long
@every_encoder
@pytest.mark.parametrize("padding", [100.0, np.nan, np.inf])
def test_padding_changes_nothing_in_training_either(name, padding):
    utterances = make_utterances(21, 30, 5, 0)
    model = get_model(name, training=True)
    fetches = [model.encoding.outputs, model.gradients]
    outputs, gradients = model.run(fetches, utterances, padding=0.0)
    of_zeros = model.run(fetches, utterances, num_padding=7, padding=0.0)
    of_padding = model.run(fetches, utterances, num_padding=7, padding=padding)
    np.testing.assert_allclose(outputs, of_zeros[0][:, : outputs.shape[1]], atol=1e-4)
    np.testing.assert_array_equal(of_padding[0], of_zeros[0])
    for variable, expected, zeros, got in zip(model.variables, gradients, of_zeros[1], of_padding[1]):
        tolerance = 1e-3 * (1 + np.abs(expected).max())
        np.testing.assert_allclose(expected, zeros, atol=tolerance, err_msg=variable.name)
        np.testing.assert_array_equal(got, zeros, variable.name)


def cast_kernels(getter, name, *args, kind, **kwargs):
    """What is multiplied by sequences is made theirs, as mixed precision does; statistics stay float32."""
    variable = getter(name, *args, **kwargs)
    return tf.cast(variable, kind) if name.endswith(("kernel", "bias")) else variable


@functools.cache
def train_in(name, kind):
    """Outputs and gradients of a batch with an empty row, as float32."""
    utterances = make_utterances(21, 30, 0)
    fbank = np.zeros([3, 32, NUM_BINS])
    for row, utterance in zip(fbank, utterances):
        row[: len(utterance)] = utterance
    config = dataclasses.replace(CONFIG, encoder=name, encoder_layers=1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        with tf.compat.v1.variable_scope("", custom_getter=functools.partial(cast_kernels, kind=kind)):
            build, num_frames = acoustic.ENCODERS[name].build, tf.constant([21, 30, 0])
            outputs, *_ = build(config, tf.cast(fbank, kind), num_frames, SEED)
        assert outputs.dtype == kind
        outputs = tf.cast(outputs, tf.float32)
        loss = 0.01 * tf.reduce_sum(outputs[:, :, 0] ** 2)
        gradients = tf.gradients(loss, tf.compat.v1.trainable_variables())
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run([outputs, *gradients])


@pytest.mark.long
@every_encoder
@pytest.mark.parametrize(("kind", "tolerance"), [(tf.float16, 0.02), (tf.bfloat16, 0.2)])
def test_half_floats_with_an_empty_row_give_nearly_what_float32_gives(name, kind, tolerance):
    outputs, *gradients = train_in(name, kind)
    np.testing.assert_allclose(outputs, train_in(name, tf.float32)[0], atol=tolerance)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.long
@pytest.mark.parametrize("name", ["conformer", "cnn"])
def test_padding_feeds_no_batch_norm_average(name):
    utterances = make_utterances(21, 30, 5)
    averages = []
    model = get_model(name, training=True)
    for num_padding in (0, 9):
        model.session.run([average.initializer for average in model.averages])
        averages.append(model.run(model.updates, utterances, num_padding))
    assert averages[0]
    for expected, got in zip(*averages):
        np.testing.assert_allclose(expected, got, atol=1e-5)


@pytest.mark.long
@every_encoder
def test_every_variable_has_a_gradient(name):
    model = get_model(name, training=True)
    gradients = model.run(model.gradients, make_utterances(40, 30))
    for variable, gradient in zip(model.variables, gradients):
        assert np.isfinite(gradient).all() and np.any(gradient != 0), variable.name


@every_encoder
@pytest.mark.long
def test_different_utterances_get_different_vectors(name):
    model = get_model(name, training=True)
    outputs = model.run(model.encoding.outputs, make_utterances(40, 40))
    assert np.std(outputs - outputs.mean(axis=(0, 1)), axis=(0, 1)).max() > 0.1


def run_halve(num_frames):
    """The outputs for 1, 10, 100, ..., of which `num_frames` are real, with a kernel of ones."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = tf.constant([1.0, 10, 100, 1000, 10000], shape=[1, 5, 1, 1])
        lengths = tf.constant([num_frames])
        span = streaming.Span(lengths, layers.sequence_mask(lengths, 5))
        outputs = encoders.halve(inputs, span, 1, "halve")
        session.run(tf.compat.v1.global_variables_initializer())
        kernel = tf.compat.v1.trainable_variables("halve/kernel")[0]
        session.run(kernel.assign(tf.ones(kernel.shape)))
        return session.run(outputs)[0, :, 0, 0].tolist()


def test_halve_sees_copies_of_the_first_and_last_frame_beyond_the_ends():
    assert run_halve(3)[:2] == [1 + 1 + 10, 10 + 100 + 100]
    assert run_halve(4)[:2] == [1 + 1 + 10, 10 + 100 + 1000]


@pytest.mark.parametrize("name", ["conformer", "transformer"])
@pytest.mark.long
def test_constant_features_show_no_edges(name):
    encoding = get_model(name).run(get_model(name).encoding, [np.ones([40, NUM_BINS])])
    np.testing.assert_allclose(encoding.outputs[0], np.tile(encoding.outputs[0, :1], [10, 1]), atol=1e-5)


@pytest.mark.parametrize("name", ["conformer", "transformer"])
def test_frames_below_attention_see_only_their_own_time(name):
    """Otherwise the local CTC loss would not keep tokens within their syllables."""
    model, (utterance,) = get_model(name), make_utterances(80)
    changed = utterance.copy()
    changed[40:] += 1.0
    before, after = (model.run(model.encoding, [each]) for each in (utterance, changed))
    np.testing.assert_array_equal(before.below[0, :9], after.below[0, :9])
    assert np.all(before.below[0, 11:] != after.below[0, 11:])
    assert np.all(np.abs(before.outputs - after.outputs).max(axis=2) > 1e-6)
