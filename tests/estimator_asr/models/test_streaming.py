"""Encoders that get a recording in pieces: their outputs do not depend on the pieces, nor on later chunks."""

import dataclasses
import functools
import itertools

import graph_variables
import numpy as np
import pytest
import small_models
import tensorflow as tf

from estimator_asr.models import acoustic, streaming

NUM_BINS = 8
CHUNK = 16  # feature frames
every_encoder = pytest.mark.parametrize("name", ["conformer", "transformer"])
INPUTS = {"fbank": (tf.float32, [None, None, NUM_BINS]), "num_frames": (tf.int32, [None])}
CONFIG = dataclasses.replace(
    small_models.ACOUSTIC,
    **{"encoder_layers": 2, "encoder_units": 8, "conv_kernel_size": 5, "acoustic_dropout": 0.0},
    **{"decoder_layers": 0, "chunk_frames": CHUNK},
)


class Model:
    """A model in its own graph, for whole recordings, for recordings cut into chunks, and for pieces."""

    def __init__(self, name):
        self.config, self.state = dataclasses.replace(CONFIG, encoder=name), streaming.State()
        self.network = graph_variables.Network(self.build, **INPUTS, before=(tf.int32, [None]))
        # The averages of batch norm become random, because 0 and 1 would have no effect.
        lowest, rng = {"moving_mean": -0.5, "moving_variance": 0.5}, np.random.default_rng(1)
        with self.network.session.as_default(), self.network.session.graph.as_default():
            for variable in self.network.variables:
                name = variable.op.name.split("/")[-1]
                if name in lowest:
                    variable.assign(np.float32(rng.uniform(lowest[name], 0.8, variable.shape))).op.run()

    def build(self, fbank, num_frames, before):
        """Returns the CTC logits of whole recordings, of recordings cut into chunks, and of pieces."""
        chunk, logits = tf.constant(CHUNK // 4), []
        streams = None, streaming.Stream(chunk), streaming.Stream(chunk, before, self.state)
        for stream in streams:
            with tf.compat.v1.variable_scope("", reuse=tf.compat.v1.AUTO_REUSE):
                outputs = acoustic.build(self.config, fbank, num_frames, num_classes=5, stream=stream)
                logits.append(outputs.ctc_logits)
        return logits

    def run_whole(self, fbank, num_frames):
        return self.network(fbank, num_frames, fetches=self.network.outputs[0])

    def run_chunked(self, fbank, num_frames):
        return self.network(fbank, num_frames, fetches=self.network.outputs[1])

    def run_pieces(self, fbank, num_frames, draw_chunks):
        """Returns the logits of each recording; draw_chunks() returns the number of chunks in a piece."""
        consumed, outputs = np.zeros(len(fbank), int), [[] for _ in fbank]
        starts = self.network.session.run(self.state.starts)
        state = {name: np.stack([start] * len(fbank)) for name, start in starts.items()}
        while np.any(consumed < num_frames):
            counts = [min(CHUNK * draw_chunks(), remaining) for remaining in num_frames - consumed]
            piece = np.full([len(fbank), max(*counts, 1), NUM_BINS], np.nan)
            for row, source, start, count in zip(piece, fbank, consumed, counts):
                row[:count] = source[start : start + count]
            feeds = dict(zip(self.network.inputs.values(), (piece, counts, consumed // 4)))
            feeds.update({self.state.inputs[name]: value for name, value in state.items()})
            fetches = self.network.outputs[2], self.state.outputs
            logits, state = self.network.session.run(fetches, feeds)
            for output, row, count in zip(outputs, logits, counts):
                output.append(row[: -(-count // 4)])
            consumed += counts
        return [np.concatenate(output) for output in outputs]


@functools.cache
def get_model(name):
    return Model(name)


def make_fbank(*shape):
    return np.random.default_rng(1).normal(8.0, 3.0, [*shape, NUM_BINS])


@pytest.mark.long
@every_encoder
def test_pieces_have_the_outputs_of_the_whole_recording_in_chunks(name):
    """Some recordings are longer than LEFT_FRAMES, and all end at different times."""
    fbank, num_frames, rng = make_fbank(3, 603), np.array([603, 410, 5]), np.random.default_rng(2)
    fbank[0, :50] = -15.9  # digital silence
    model = get_model(name)
    whole = model.run_chunked(fbank, num_frames)
    for draw_chunks in (lambda: 1, lambda: rng.integers(0, 6)):
        pieces = model.run_pieces(fbank, num_frames, draw_chunks)
        for row, logits, length in zip(whole, pieces, num_frames):
            assert len(logits) == -(-length // 4)
            np.testing.assert_allclose(logits, row[: len(logits)], atol=2e-5)


@pytest.mark.long
@every_encoder
def test_outputs_depend_on_the_whole_chunk_and_on_nothing_after_it(name):
    model, fbank = get_model(name), make_fbank(1, 96)
    changed = fbank.copy()
    changed[:, 47] += 3.0  # the last frame of the third chunk
    before, after = (model.run_chunked(features, [96])[0] for features in (fbank, changed))
    np.testing.assert_array_equal(before[:8], after[:8])
    assert np.all(np.abs(before - after).max(axis=1)[8:] > 1e-6)


@pytest.mark.long
@every_encoder
def test_a_streaming_model_also_processes_whole_recordings(name):
    model, fbank = get_model(name), make_fbank(1, 96)
    changed = fbank.copy()
    changed[:, 95] += 3.0
    before, after = (model.run_whole(features, [96])[0] for features in (fbank, changed))
    assert np.all(np.abs(before - after).max(axis=1) > 1e-7)
    assert np.abs(before - model.run_chunked(fbank, [96])[0]).max() > 1e-3


def make_training(name):
    """Builds the forward and backward pass of a training step."""

    def build(fbank, num_frames):
        options = {"num_classes": 5, "seed": tf.constant([1, 2], tf.int64)}
        config = dataclasses.replace(CONFIG, encoder=name)
        logits = acoustic.build(config, fbank, num_frames, **options).ctc_logits
        variables = tf.compat.v1.trainable_variables()
        return logits, tf.gradients(tf.reduce_sum(logits[:, :, 0] ** 2), variables)

    return graph_variables.Network(build, **INPUTS)


@pytest.mark.long
@every_encoder
def test_training_uses_the_sampled_chunk_sizes(name, monkeypatch):
    fbank, logits, seeds = make_fbank(2, 96), [], []
    for chunk in (4, 4, 8, 1000):

        def sample(seed, subsampling, chunk=chunk):
            seeds.append((tf.get_static_value(seed).tolist(), subsampling))
            return streaming.Stream(tf.constant(chunk))

        monkeypatch.setattr(streaming, "sample", sample)
        logits.append(make_training(name)(fbank, [96, 80])[0])
    assert seeds == [([1, 2], 4)] * 4
    np.testing.assert_array_equal(logits[0], logits[1])
    assert all(np.abs(one - other).max() > 1e-4 for one, other in itertools.combinations(logits[1:], 2))


@pytest.mark.long
@every_encoder
@pytest.mark.parametrize("chunk", [4, 1000])
def test_padding_changes_nothing_in_training(name, chunk, monkeypatch):
    monkeypatch.setattr(streaming, "sample", lambda *_: streaming.Stream(tf.constant(chunk)))
    run, fbank = make_training(name), make_fbank(3, 57)
    fbank[1, 30:], fbank[2] = 0.0, 0.0
    wanted, gradients = run(fbank, [57, 30, 0])
    padded = np.pad(fbank, [[0, 0], [0, 11], [0, 0]], constant_values=np.nan)
    padded[1, 30:], padded[2] = np.nan, np.nan
    got, got_gradients = run(padded, [57, 30, 0])
    for row, length in enumerate([15, 8]):
        np.testing.assert_allclose(got[row, :length], wanted[row, :length], atol=2e-5)
    for one, other in zip(gradients, got_gradients):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(other, one, atol=1e-3 * (1 + np.abs(one).max()))


def test_the_attention_mask_covers_the_chunk_and_earlier_frames():
    first, second, third = [1, 1, 0, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]
    span = streaming.Span(np.int32([5]), np.ones([1, 5], np.float32), streaming.Stream(2))
    mask = graph_variables.run(span.attention_mask)[0]
    assert mask.tolist() == [first, first, second, second, third]
    later = streaming.Stream(2, np.int32([4]), streaming.State())
    span = streaming.Span(np.int32([3]), np.ones([1, 4], np.float32), later)
    mask = graph_variables.run(span.attention_mask)[0]
    assert mask.shape == (4, streaming.LEFT_FRAMES + 4)
    earlier = [0] * (streaming.LEFT_FRAMES - 4) + [1] * 4  # only four frames came before
    assert mask[0].tolist() == [*earlier, 1, 1, 0, 0]
    assert mask[2, 2:].tolist() == [*earlier[2:], 1, 1, 1, 0]


def test_attention_covers_a_limited_number_of_earlier_frames():
    stream = streaming.Stream(8)
    build = streaming.Span(np.int32([80]), np.ones([1, 80], np.float32), stream).attention_mask
    mask = graph_variables.run(build)[0]
    assert mask[79].tolist() == [0] * 8 + [1] * 72  # 64 frames before the chunk, which begins at frame 72


def test_chunks_are_sampled_from_160_to_640_ms_except_in_a_quarter_of_the_batches():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        seed = tf.compat.v1.placeholder(tf.int64, [2])
        chunk = streaming.sample(seed, subsampling=4).chunk
        drawn = [session.run(chunk, {seed: [1, i]}) for i in range(400)]
    assert set(map(int, drawn)) == {*range(4, 17), tf.int32.max // 2}
    assert 60 < drawn.count(tf.int32.max // 2) < 140


def test_append_and_take_rows():
    arguments = [[1, 2, 9], [9, 9, 9]], [2, 0], [[3, 4], [5, 9]], [2, 1]
    joined, lengths = graph_variables.run(lambda: streaming.append(*map(tf.constant, arguments)))
    assert lengths.tolist() == [4, 1]
    assert [row[:length].tolist() for row, length in zip(joined, lengths)] == [[1, 2, 3, 4], [5]]
    first, num_first, second, num_second = (np.array(part, np.int32) for part in arguments)
    vectors = np.stack([first, 10 * first], 2), num_first, np.stack([second, 10 * second], 2), num_second
    assert graph_variables.run(lambda: streaming.append(*map(tf.constant, vectors)))[0].tolist() == [
        [[value, 10 * value] for value in row] for row in joined.tolist()
    ]
    arguments = [[1, 2, 3], [4, 5, 6]], [2, 0]
    taken = graph_variables.run(lambda: streaming.take_rows(*map(tf.constant, arguments), 2))
    assert taken.tolist() == [[3, 0], [4, 5]]
