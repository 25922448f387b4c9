"""The Conformer on top of Whisper: the outputs that it reads, and the blocks that it trains."""

import dataclasses

import numpy as np
import pytest
import small_whisper
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import acoustic, frozen_encoder
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder.audio import pretrained_encoder

SMALL = config_lib.AcousticConfig(
    encoder="whisper", encoder_layers=1, encoder_units=8, encoder_inner_units=8, attention_heads=2
)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    return encoder_weights.read(small_whisper.write(tmp_path_factory.mktemp("whisper")))


def make_config(encoder, layers, trainable_blocks=0):
    applied = pretrained_encoder.Applied(encoder, layers)
    return dataclasses.replace(SMALL, pretrained=applied, trainable_blocks=trainable_blocks)


def run(whisper, config, fbank, num_frames, from_records: bool):
    """Returns CTC logits and their number; Whisper's outputs are read from records or computed."""
    encoder, tensors = whisper
    values = encoder_weights.to_variables(encoder, tensors)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        fbank, num_frames = tf.constant(fbank), tf.constant(num_frames)
        if from_records:
            fbank, num_frames = frozen_encoder.build(config.pretrained, fbank, num_frames)
            fbank = tf.cast(fbank, tf.float32)
        outputs = acoustic.build(config, fbank, num_frames, num_classes=3)
        session.run(tf.compat.v1.global_variables_initializer())
        for variable in tf.compat.v1.global_variables():
            for scope in (frozen_encoder.SCOPE, "acoustic/encoder/pretrained"):
                if variable.op.name.startswith(f"{scope}/"):
                    variable.load(values[variable.op.name[len(scope) + 1 :]], session)
            if variable.op.name.startswith("acoustic") and "pretrained" not in variable.op.name:
                seed = sum(variable.op.name.encode())
                values = 0.3 + np.random.default_rng(seed).normal(size=variable.shape)
                variable.load(np.abs(values) if "variance" in variable.op.name else values, session)
        return session.run([outputs.ctc_logits, outputs.num_frames])


def draw(*shape):
    return np.float32(np.random.default_rng(3).normal(size=shape))


@pytest.mark.long
@pytest.mark.parametrize("layers, trainable_blocks", [((2, 3), 0), ((1,), 0), ((1, 2), 1), ((1, 3), 2)])
def test_records_and_graph_give_the_same(whisper, layers, trainable_blocks):
    config = make_config(whisper[0], layers, trainable_blocks)
    fbank = draw(2, 21, 80)
    (stored, stored_frames), (computed, computed_frames) = (
        run(whisper, config, fbank, [21, 12], from_records) for from_records in (True, False)
    )
    assert stored_frames.tolist() == computed_frames.tolist() == [6, 3]  # ceil(ceil(n / 2) / 2)
    assert np.isfinite(stored).all()
    np.testing.assert_allclose(stored, computed, atol=1e-4)


@pytest.mark.long
def test_stored_blocks_above_the_first_trained_one_are_not_read(whisper):
    fbank = draw(2, 21, 80)
    both, lower = (
        run(whisper, make_config(whisper[0], layers, 2), fbank, [21, 12], True) for layers in ((1, 3), (1,))
    )
    np.testing.assert_array_equal(both[0], lower[0])


@pytest.mark.long
def test_padding_changes_nothing(whisper):
    config = make_config(whisper[0], (2,), 1)
    short, batch = draw(1, 9, 80), np.full([2, 30, 80], np.nan, np.float32)
    batch[0, :9], batch[1] = short[0], draw(30, 80)
    config = dataclasses.replace(config, trainable_blocks=1)
    (together, counts), (alone, _) = (
        run(whisper, config, fbank, lengths, False) for fbank, lengths in ((batch, [9, 30]), (short, [9]))
    )
    assert counts[0] == 3
    np.testing.assert_allclose(together[0, :3], alone[0], atol=2e-3)


@pytest.mark.long
@pytest.mark.parametrize(
    "trainable_blocks, trained",
    [(0, set()), (1, {"block_3", "output_norm"}), (2, {"block_2", "block_3", "output_norm"})],
)
def test_only_the_upper_blocks_are_trained(whisper, trainable_blocks, trained):
    config = make_config(whisper[0], (3 - trainable_blocks,), trainable_blocks)
    with tf.Graph().as_default():
        acoustic.build(config, tf.zeros([1, 8, 80]), tf.constant([8]), num_classes=3)
        names = [variable.op.name.split("/") for variable in tf.compat.v1.trainable_variables()]
    assert {name[3] for name in names if name[2] == "pretrained"} == trained
    assert {name[2] for name in names if name[1] == "encoder"} >= {"input_norm", "project", "block_0"}


@pytest.mark.long
@pytest.mark.parametrize("log_mel, differs", [(True, True), (False, False)])
def test_log_mel_frames_are_read_only_on_request(whisper, log_mel, differs):
    config = dataclasses.replace(make_config(whisper[0], (2, 3)), log_mel=log_mel)
    records = draw(1, 12, 2 * 80 + 2 * 16)
    others = np.concatenate([-records[..., :160], records[..., 160:]], axis=2)
    one, other = (run(whisper, config, each, [12], from_records=False)[0] for each in (records, others))
    assert np.isfinite(one).all()
    assert np.any(one != other) == differs
