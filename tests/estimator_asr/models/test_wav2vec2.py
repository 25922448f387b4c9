"""HuBERT and wav2vec 2.0 against an independent NumPy encoder, on random weights in the published layout."""

import numpy as np
import pytest
import small_hubert
import tensorflow as tf

from estimator_asr.models import frozen_encoder, layers
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder.audio import frontend, pretrained_encoder

LAYOUTS = {
    "base": {},
    "large": small_hubert.LARGE,
    "layer norm after each module": {"feat_extract_norm": "layer", "model_type": "wav2vec2"},
    "biases, an odd width": {"conv_bias": True, "num_conv_pos_embeddings": 7, "do_stable_layer_norm": True},
}


class Blocks:
    """An encoder in its own graph, with the outputs of all its blocks."""

    def __init__(self, weights_dir):
        encoder, _ = encoder_weights.read(weights_dir)
        with tf.Graph().as_default():
            self.session = tf.compat.v1.Session()
            self.fbank = tf.compat.v1.placeholder(tf.float32, [None, None, 160])
            self.num_frames = tf.compat.v1.placeholder(tf.int32, [None])
            with tf.compat.v1.variable_scope(frozen_encoder.SCOPE):
                family = frozen_encoder.FAMILIES[encoder.family]
                hidden, num_outputs = family.embed(encoder, self.fbank, self.num_frames)
                mask = layers.sequence_mask(num_outputs, tf.shape(hidden)[1])
                outputs = frozen_encoder.run_blocks(encoder, hidden, mask, range(1, encoder.layers + 1))
            self.outputs = tf.stack(outputs), num_outputs
            encoder_weights.load(self.session, weights_dir, encoder)

    def run(self, fbank, num_frames):
        """Returns float32 [layers, batch, num_outputs, units] and int32 [batch]."""
        return self.session.run(self.outputs, {self.fbank: fbank, self.num_frames: num_frames})


@pytest.fixture(scope="module", params=LAYOUTS.values(), ids=LAYOUTS)
def layout(request, tmp_path_factory):
    """Returns changes to the configuration, and the encoder."""
    blocks = Blocks(small_hubert.write(tmp_path_factory.mktemp("hubert"), **request.param))
    yield request.param, blocks
    blocks.session.close()


def build(weights_dir, fbank, num_frames, numbers):
    """Returns the values of the two tensors that frozen_encoder.build returns."""
    encoder, _ = encoder_weights.read(weights_dir)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        applied = pretrained_encoder.Applied(encoder, numbers)
        outputs = frozen_encoder.build(applied, tf.constant(fbank), tf.constant(num_frames))
        assert not tf.compat.v1.trainable_variables()
        encoder_weights.load(session, weights_dir, encoder)
        return session.run(outputs)


def draw(num_frames: int, seed: int) -> np.ndarray:
    """Returns noise that gets louder, with an offset, float32 [num_frames, 160]."""
    rng, times = np.random.default_rng(seed), np.linspace(0, 1, 160 * num_frames)
    samples = 0.01 * seed + times * rng.normal(0, 0.1, 160 * num_frames)
    return np.float32(samples.reshape(num_frames, 160))


def test_every_block_has_the_outputs_of_the_reference(layout):
    changes, blocks = layout
    fbank = draw(24, seed=1)
    outputs, (count,) = blocks.run(fbank[None], [24])
    tensors = small_hubert.make_tensors(**changes)
    expected = small_hubert.encode(fbank.reshape(-1), tensors, **changes)
    assert count == (24 * 160 - 400) // 320 + 1 == 11
    np.testing.assert_allclose(outputs[:, 0], expected, atol=1e-4)


def test_an_utterance_has_the_same_outputs_in_a_padded_batch(layout):
    """Some models normalise the first convolution over time; padding must not affect their statistics."""
    _, blocks = layout
    utterances = [draw(9, seed=1), draw(30, seed=2), draw(3, seed=3)]
    batch = np.full([4, 34, 160], np.nan, np.float32)  # the last utterance has no frames
    for row, utterance in zip(batch, utterances):
        row[: len(utterance)] = utterance
    together, counts = blocks.run(batch, [9, 30, 3, 0])
    assert counts.tolist() == [4, 14, 1, 0]
    for number, utterance in enumerate(utterances):
        alone, _ = blocks.run(utterance[None], [len(utterance)])
        np.testing.assert_allclose(together[:, number, : counts[number]], alone[:, 0], atol=1e-5)


@pytest.mark.long
def test_samples_are_normalised_only_if_the_preprocessor_config_says_so(tmp_path):
    fbank = draw(12, seed=4)
    preprocessor = {**small_hubert.PREPROCESSOR, "do_normalize": False}
    weights_dir = small_hubert.write(tmp_path, preprocessor=preprocessor, **small_hubert.LARGE)
    outputs, _ = Blocks(weights_dir).run(fbank[None], [12])
    tensors, samples = small_hubert.make_tensors(**small_hubert.LARGE), fbank.reshape(-1)
    raw, normalised = (
        small_hubert.encode(samples, tensors, do_normalize, **small_hubert.LARGE)
        for do_normalize in (False, True)
    )
    np.testing.assert_allclose(outputs[:, 0], raw, atol=1e-4)
    assert np.abs(outputs[:, 0] - normalised).max() > 0.1


def test_log_mel_frames_come_before_the_block_outputs(tmp_path):
    fbank, weights_dir = draw(8, seed=1), small_hubert.write(tmp_path)
    (vectors,), (count,) = build(weights_dir, fbank[None], [8], (1, 3))
    assert count == 3 and vectors.shape == (3, 160 + 2 * 16) and vectors.dtype == np.float16
    log_mel = frontend.extract(tf.constant(fbank.reshape(-1)), frontend.FrontendConfig()).numpy()
    np.testing.assert_allclose(vectors[:, :160], log_mel.reshape(3, 160), atol=0.02)
    blocks = small_hubert.encode(fbank.reshape(-1), small_hubert.make_tensors())
    np.testing.assert_allclose(vectors[:, 160:], np.hstack([blocks[0], blocks[2]]), atol=4e-3)


@pytest.mark.parametrize("num_frames", [1, 2])
def test_a_batch_that_is_too_short_for_an_output_has_none(tmp_path, num_frames):
    vectors, counts = build(small_hubert.write(tmp_path), draw(num_frames, 1)[None], [num_frames], (1,))
    assert counts.tolist() == [0]
    np.testing.assert_array_equal(vectors, 0)
