"""Whisper's encoder against an independent NumPy encoder, on random weights in the published layout."""

import graph_variables
import numpy as np
import pytest
import small_whisper
import tensorflow as tf

from estimator_asr.models import attention, frozen_encoder, whisper
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder.audio import pretrained_encoder


@pytest.fixture(scope="module")
def weights_dir(tmp_path_factory):
    return small_whisper.write(tmp_path_factory.mktemp("whisper"))


def run(weights_dir, fbank, num_frames, layers=(1, 2, 3)):
    """Returns the values of the two tensors that frozen_encoder.build returns."""
    encoder, _ = encoder_weights.read(weights_dir)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        applied = pretrained_encoder.Applied(encoder, layers)
        outputs = frozen_encoder.build(applied, tf.constant(fbank, tf.float32), tf.constant(num_frames))
        assert not tf.compat.v1.trainable_variables()
        encoder_weights.load(session, weights_dir, encoder)
        return session.run(outputs)


def draw(num_frames: int, seed: int) -> np.ndarray:
    return np.float32(np.random.default_rng(seed).normal(size=[num_frames, 80]))


@pytest.mark.parametrize("num_frames", [1, 2, 7, 40])
def test_every_block_has_the_outputs_of_the_reference(weights_dir, num_frames):
    fbank = draw(num_frames, seed=num_frames)
    (vectors,), (count,) = run(weights_dir, fbank[None], [num_frames])
    expected = small_whisper.encode(fbank, small_whisper.make_tensors())
    assert count == len(vectors) == -(-num_frames // 2)
    for number, output in enumerate(expected):
        found = vectors[:, 160 + 16 * number : 160 + 16 * (number + 1)]
        np.testing.assert_allclose(np.float64(found), output, atol=6e-3)  # half precision, values up to 4


def test_stacked_log_mel_frames_come_before_the_block_outputs(weights_dir):
    fbank = draw(3, seed=1)
    (vectors,), _ = run(weights_dir, fbank[None], [3], layers=(3,))
    assert vectors.shape == (2, 160 + 16)
    np.testing.assert_array_equal(vectors[0, :160], np.float16(fbank[:2].reshape(-1)))
    np.testing.assert_array_equal(vectors[1, :160], np.float16(np.concatenate([fbank[2], np.zeros(80)])))


@pytest.mark.long
def test_padding_and_neighbours_change_nothing(weights_dir):
    short, long = draw(9, seed=1), draw(30, seed=2)
    batch = np.full([2, 30, 80], np.nan, np.float32)
    batch[0, :9], batch[1] = short, long
    vectors, counts = run(weights_dir, batch, [9, 30])
    assert counts.tolist() == [5, 15]
    alone = run(weights_dir, short[None], [9])[0][0]
    np.testing.assert_allclose(np.float32(vectors[0, :5]), np.float32(alone), atol=4e-3)
    np.testing.assert_array_equal(vectors[0, 5:], 0)


def test_positions_equal_the_published_weights():
    found = graph_variables.run(lambda: attention.sinusoids(1500, whisper.wave_rates(64)))
    np.testing.assert_allclose(found, small_whisper.sinusoids(1500, 64), atol=2e-4)


def test_only_the_blocks_that_are_needed_are_built(weights_dir):
    encoder, _ = encoder_weights.read(weights_dir)
    with tf.Graph().as_default():
        applied = pretrained_encoder.Applied(encoder, (1,))
        frozen_encoder.build(applied, tf.zeros([1, 4, 80]), tf.constant([4]))
        names = {variable.op.name.split("/")[1] for variable in tf.compat.v1.global_variables()}
    assert names == {"convolution_0", "convolution_1", "block_1"}
