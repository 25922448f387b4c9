"""Whisper's decoder against an independent NumPy decoder, and its beam search against all sequences."""

import functools
import itertools

import numpy as np
import pytest
import small_whisper
import tensorflow as tf
import tiny_models

from estimator_asr.models import whisper_decoder
from estimator_asr.pretrained import decoder_weights, encoder_weights


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("decoder")
    acoustic = tiny_models.make_pretrained_model(str(path / "am"), "whisper", layers=(1, 3))
    language = tiny_models.make_language_model(str(path / "lm"))
    return decoder_weights.compile_decoder(f"{path}/am-whisper", acoustic, language)


def run(decoder, memory, lengths, build):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        memory = whisper_decoder.attend_to(decoder, tf.constant(memory, tf.float32), tf.constant(lengths))
        outputs = build(memory)
        assert not tf.compat.v1.trainable_variables()
        encoder_weights.assign(session, whisper_decoder.SCOPE, decoder.weights)
        return session.run(outputs)


def draw_memory(*lengths):
    """Returns random encoder outputs; padding is NaN, because it must not matter."""
    rng = np.random.default_rng(len(lengths))
    memory = np.full([len(lengths), max(lengths), 16], np.nan)
    for row, length in zip(memory, lengths):
        row[:length] = 2 * rng.normal(size=[length, 16])
    return memory


def log_probs(decoder, memory, ids):
    """Returns the reference's log probabilities of the decoder's tokens, and of the end, after each token."""
    tokenizer, tensors = small_whisper.make_tokenizer(), small_whisper.make_decoder_tensors()
    special = {each["content"]: each["id"] for each in tokenizer["added_tokens"]}
    prompt = [special[f"<|{name}|>"] for name in ("startoftranscript", "zh", "transcribe", "notimestamps")]
    shown = {
        bytes(decoder_weights.whisper_vocabulary._to_bytes(k)): v
        for k, v in tokenizer["model"]["vocab"].items()
    }
    kept = [shown[text] for text in decoder.token_texts.tolist()] + [special["<|endoftext|>"]]
    logits = small_whisper.decode(memory, [*prompt, *(kept[i] for i in ids)], tensors)[3:, kept]
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def score(decoder, memory, ids):
    end = len(decoder.token_texts)
    return sum(row[token] for row, token in zip(log_probs(decoder, memory, ids), [*ids, end]))


@pytest.mark.long
def test_sequences_have_the_scores_of_the_reference(decoder):
    memory = draw_memory(9, 5)
    ids = np.int32([[[0, 3, 2], [1, -1, -1]], [[-1, -1, -1], [4, 4, 4]]])
    counts = np.int32([[3, 1], [0, 3]])
    found = run(decoder, memory, [9, 5], lambda each: whisper_decoder.score(decoder, each, ids, counts))
    for i, length in enumerate((9, 5)):
        for j in range(2):
            expected = score(decoder, memory[i, :length], ids[i, j, : counts[i, j]])
            assert found[i, j] == pytest.approx(expected, abs=1e-4)


@pytest.mark.long
def test_proposals_are_the_most_probable_of_all_sequences(decoder):
    """With a beam as wide as the number of one-token sequences, search up to two tokens is exact."""
    memory, width = draw_memory(3), len(decoder.token_texts) + 1
    found = run(
        decoder, memory, [3], lambda each: whisper_decoder.propose(decoder, each, np.int32([2]), width)
    )
    tokens, totals = range(width - 1), {}
    for ids in [(), *itertools.product(tokens), *itertools.product(tokens, tokens)]:
        rows = log_probs(decoder, memory[0], ids)
        ends = [width - 1] if len(ids) < 2 else []  # at the limit of two tokens, no end is needed
        totals[ids] = sum(row[token] for row, token in zip(rows, [*ids, *ends]))
    best = sorted(totals, key=totals.get, reverse=True)[:3]
    assert [tuple(row[row >= 0]) for row in found[0, :3]] == best


@pytest.mark.long
def test_a_proposal_depends_on_its_own_recording_alone(decoder):
    memory = draw_memory(6, 31)
    together = run(
        decoder, memory, [6, 31], lambda each: whisper_decoder.propose(decoder, each, np.int32([3, 9]), 3)
    )
    assert np.all(np.sum(together >= 0, axis=2) <= [[3], [9]])
    for i, (length, limit) in enumerate(((6, 3), (31, 9))):
        build = functools.partial(whisper_decoder.propose, decoder, limits=np.int32([limit]), width=3)
        alone = run(decoder, memory[i : i + 1, :length], [length], build)
        longest = alone.shape[2]
        np.testing.assert_array_equal(alone[0], together[i, :, :longest])
        assert np.all(together[i, :, longest:] == -1)


@pytest.mark.long
def test_the_last_position_and_more_tokens_than_positions_are_scored(decoder):
    """The table has 40 positions: four for the prompt and 36 for tokens."""
    memory = draw_memory(5)

    def find(length):
        ids = np.zeros([1, 1, length], np.int32)
        return run(decoder, memory, [5], lambda each: whisper_decoder.score(decoder, each, ids, [[length]]))

    assert find(36)[0, 0] == pytest.approx(score(decoder, memory[0], [0] * 36), rel=1e-5)
    assert np.isfinite(find(60)).all()
