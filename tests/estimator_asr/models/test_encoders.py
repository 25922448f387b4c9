"""Every encoder: a quarter of the frames, and independence of padding."""

import dataclasses
import functools

import graph_variables
import numpy as np
import pytest
import small_models
import tensorflow as tf

from estimator_asr.models import acoustic, encoders, layers, normalisation, streaming
from tfrecord_builder.audio import pretrained_encoder

NUM_BINS = 8
PRETRAINED = pretrained_encoder.PretrainedEncoder("whisper", NUM_BINS, 8, 16, heads=2, layers=3, sha256="")
CONFIG = dataclasses.replace(
    small_models.ACOUSTIC,
    **{"encoder_layers": 2, "encoder_units": 8, "conv_kernel_size": 5, "acoustic_dropout": 0.0},
    **{"trainable_blocks": 1, "pretrained": pretrained_encoder.Applied(PRETRAINED, (1, 2))},
)
# The same encoder reads the outputs of all families of pretrained encoders, so one family is enough.
every_encoder = pytest.mark.parametrize("name", sorted(set(acoustic.ENCODERS) - {"hubert", "wav2vec2"}))

SEED = (1, 2)


class Model:
    """An encoder in its own graph, fed with lists of utterances [num_frames, NUM_BINS]."""

    def __init__(self, name, training=False):
        config = dataclasses.replace(CONFIG, encoder=name)

        def build(fbank, num_frames):
            encoding = acoustic.ENCODERS[name].build(config, fbank, num_frames, SEED if training else None)
            self.updates = [v.assign_add(change) for v, change in normalisation.pending_updates()]
            self.variables = tf.compat.v1.trainable_variables()
            self.gradients = tf.gradients(tf.reduce_sum(encoding.outputs[:, :, 0] ** 2), self.variables)
            return encoding

        fbank, num_frames = (tf.float32, [None, None, NUM_BINS]), (tf.int32, [None])
        self.network = graph_variables.Network(build, fbank=fbank, num_frames=num_frames)
        self.encoding = self.network.outputs

    def run(self, fetches, utterances, num_padding=0, padding=np.nan):
        return self.network(*pad(utterances, num_padding, padding), fetches=fetches)


def pad(utterances, num_padding=0, padding=np.nan):
    """Returns a batch with num_padding frames after the longest utterance, and the numbers of frames."""
    longest = max(map(len, utterances)) + num_padding
    fbank = np.full([len(utterances), longest, NUM_BINS], padding)
    for row, utterance in zip(fbank, utterances):
        row[: len(utterance)] = utterance
    return fbank, [len(utterance) for utterance in utterances]


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
    """Casts kernels and biases to the sequences' dtype, as mixed precision does; the rest stays float32."""
    variable = getter(name, *args, **kwargs)
    return tf.cast(variable, kind) if name.endswith(("kernel", "bias")) else variable


@functools.cache
def train_in(name, kind):
    """Returns outputs and gradients for a batch with an empty row, as float32."""
    fbank, num_frames = pad(make_utterances(21, 30, 0), num_padding=2, padding=0.0)
    config = dataclasses.replace(CONFIG, encoder=name, encoder_layers=1)

    def build():
        with tf.compat.v1.variable_scope("", custom_getter=functools.partial(cast_kernels, kind=kind)):
            inputs = tf.cast(fbank, kind), tf.constant(num_frames)
            outputs, *_ = acoustic.ENCODERS[name].build(config, *inputs, SEED)
        assert outputs.dtype == kind
        outputs = tf.cast(outputs, tf.float32)
        loss = 0.01 * tf.reduce_sum(outputs[:, :, 0] ** 2)
        return [outputs, *tf.gradients(loss, tf.compat.v1.trainable_variables())]

    return graph_variables.run(build)


@pytest.mark.long
@every_encoder
@pytest.mark.parametrize(("kind", "tolerance"), [(tf.float16, 0.02), (tf.bfloat16, 0.2)])
def test_half_floats_with_an_empty_row_give_nearly_the_outputs_of_float32(name, kind, tolerance):
    outputs, *gradients = train_in(name, kind)
    np.testing.assert_allclose(outputs, train_in(name, tf.float32)[0], atol=tolerance)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.long
@pytest.mark.parametrize("name", ["conformer", "cnn"])
def test_padding_does_not_change_batch_norms_averages(name):
    utterances, averages, model = make_utterances(21, 30, 5), [], get_model(name, training=True)
    for num_padding in (0, 9):
        model.network.session.run([v.initializer for v in model.network.variables if not v.trainable])
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
    """Returns the outputs for 1, 10, 100, ..., of which num_frames are real, with a kernel of ones."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs, lengths = tf.reshape([1.0, 10, 100, 1000, 10000], [1, 5, 1, 1]), tf.constant([num_frames])
        span = streaming.Span(lengths, layers.sequence_mask(lengths, 5))
        outputs = encoders.halve(inputs, span, 1, "halve")
        graph_variables.assign(session, "halve/kernel", np.ones([3, 3, 1, 1]))
        return session.run(outputs)[0, :, 0, 0].tolist()


def test_halve_sees_copies_of_the_first_and_last_frame_beyond_the_ends():
    assert run_halve(3)[:2] == [1 + 1 + 10, 10 + 100 + 100]
    assert run_halve(4)[:2] == [1 + 1 + 10, 10 + 100 + 1000]


streaming_encoders = pytest.mark.parametrize("name", ["conformer", "transformer"])


@streaming_encoders
@pytest.mark.long
def test_constant_features_show_no_edges(name):
    encoding = get_model(name).run(get_model(name).encoding, [np.ones([40, NUM_BINS])])
    np.testing.assert_allclose(encoding.outputs[0], np.tile(encoding.outputs[0, :1], [10, 1]), atol=1e-5)


@streaming_encoders
def test_frames_below_attention_see_only_their_own_time(name):
    """Otherwise the local CTC loss would not keep tokens within their syllables."""
    model, (utterance,) = get_model(name), make_utterances(80)
    changed = utterance.copy()
    changed[40:] += 1.0
    before, after = (model.run(model.encoding, [features]) for features in (utterance, changed))
    np.testing.assert_array_equal(before.below[0, :9], after.below[0, :9])
    assert np.all(before.below[0, 11:] != after.below[0, 11:])
    assert np.all(np.abs(before.outputs - after.outputs).max(axis=2) > 1e-6)
