"""Whisper's decoder in the cascade: its proposals, and its scores, which a decoder in NumPy confirms."""

import contextlib
import dataclasses

import numpy as np
import pytest
import small_whisper
import tensorflow as tf
import tiny_models

from estimator_asr.experiment import checkpoints, config
from estimator_asr.exporting.saved_model import cascade, proposals, recogniser
from estimator_asr.pretrained import decoder_weights, whisper_vocabulary
from tfrecord_builder.data import vocabulary

pytestmark = pytest.mark.long
UNITS, WEIGHT = 16, 0.5


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("proposals")
    acoustic = tiny_models.make_pretrained_model(str(path / "am"), "whisper", layers=(1, 3))
    language = tiny_models.make_language_model(str(path / "lm"))
    whisper = decoder_weights.compile_decoder(f"{path}/am-whisper", acoustic, language)
    return dataclasses.replace(acoustic, whisper=whisper), language


@contextlib.contextmanager
def running(models, **settings):
    acoustic, language = models
    acoustic = dataclasses.replace(acoustic, decode=config.DecodeConfig(**settings))
    with tf.Graph().as_default() as graph, recogniser.open_session(graph) as session:
        inputs = {
            "fbank": tf.compat.v1.placeholder(tf.float32, [None, None, 160 + 2 * UNITS]),
            "num_frames": tf.compat.v1.placeholder(tf.int32, [None]),
        }
        outputs = cascade.transcribe(acoustic, language, **inputs)
        for model in (acoustic, language):
            cascade.restore(session, model, checkpoints.latest(model.path))
        session.run(tf.compat.v1.tables_initializer())
        yield recogniser.Recogniser(session, inputs, outputs)


def make_batch(*lengths, extra=0):
    fbank = np.full([len(lengths), max(lengths) + extra, 160 + 2 * UNITS], 7, np.float32)
    for i, length in enumerate(lengths):
        fbank[i, :length] = np.random.default_rng(length).normal(size=[length, fbank.shape[2]])
    return {"fbank": fbank, "num_frames": np.int32(lengths)}


def score(models, memory, text):
    """Returns a text's log probability under the NumPy decoder, normalised over the tokens in the export."""
    path = f"{models[0].path}-whisper/tokenizer.json"
    tokenizer, whisper = whisper_vocabulary.read(path), models[0].whisper
    spelling = whisper_vocabulary.spell(tokenizer, [text]) if text else None
    tokens = [tokenizer.ids[spelling.token_texts[i]] for i in spelling.spellings[0] if i >= 0] if text else []
    kept = [*(tokenizer.ids[each] for each in whisper.token_texts.tolist()), tokenizer.end_id]
    tensors = small_whisper.make_decoder_tensors()
    logits = small_whisper.decode(memory, [*tokenizer.prompt_ids, *tokens], tensors)[3:, kept]
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return sum(row[kept.index(token)] for row, token in zip(log_probs, [*tokens, tokenizer.end_id]))


def list_scores(result, i=0):
    return {each["transcript"]: each["score"] for each in result["n_best"][i]}


def test_each_transcript_gets_the_weighted_score_of_the_decoder(models):
    batch = make_batch(24)
    with running(models) as plain, running(models, whisper_weight=WEIGHT) as model:
        before, after = list_scores(plain.run(batch)), list_scores(model.run(batch))
    known = {text for text in before if vocabulary.UNKNOWN not in text and len(text) < 8}
    assert len(known) > 2 and known <= set(after)
    memory = np.float64(batch["fbank"][0, :, -UNITS:])
    for text in known:
        gain = after[text] - before[text]
        # The probability of a text is a sum over hypotheses, to each of which the decoder's score is added.
        assert gain == pytest.approx(WEIGHT * score(models, memory, text), abs=2e-3)


def test_proposals_are_added_to_the_hypotheses_of_the_search(models):
    """With a beam of one prefix, most transcripts are proposals."""
    batch = make_batch(24, 31)
    with running(models, beam_width=1, whisper_weight=WEIGHT) as model:
        found = model.run(batch)
    for i in range(2):
        texts = list(list_scores(found, i))
        assert 1 < len(texts) <= 6 and len(set(texts)) == len(texts)
        assert set("".join(texts).replace(vocabulary.UNKNOWN, "")) <= set(tiny_models.CHARACTERS.tokens)


def test_batch_and_padding_change_nothing(models):
    with running(models, whisper_weight=WEIGHT) as model:
        together = model.run(make_batch(24, 9, 40, extra=13))
        for i, length in enumerate((24, 9, 40)):
            alone = model.run(make_batch(length))
            assert alone["transcript"] == [together["transcript"][i]]
            one, other = list_scores(alone), list_scores(together, i)
            assert one.keys() == other.keys()
            for text in one:
                assert one[text] == pytest.approx(other[text], rel=1e-3)


def test_a_recording_without_frames_is_empty(models):
    with running(models, whisper_weight=WEIGHT) as model:
        assert model.run(make_batch(12, 0))["transcript"][1] == ""
        empty = {"fbank": np.zeros([1, 0, 192], np.float32), "num_frames": [0]}
        assert model.run(empty)["transcript"] == [""]


def test_greedy_decoding_proposes_nothing(models):
    batch = make_batch(24)
    with running(models, decoding="greedy") as plain:
        expected = plain.run(batch)
    with running(models, decoding="greedy", whisper_weight=WEIGHT) as model:
        assert model.run(batch) == expected


def test_hotwords_boost_proposals_too(models):
    """A proposal that contains a hotword gets its boost, like a hypothesis of the search."""
    acoustic, language = models
    acoustic = dataclasses.replace(acoustic, decode=config.DecodeConfig(whisper_weight=WEIGHT))
    scores = []
    for boost in ("0", "3"):
        with tf.Graph().as_default() as graph, recogniser.open_session(graph) as session:
            batch = {name: tf.constant(value) for name, value in make_batch(24).items()}
            hotwords = tf.constant([f"你好 ni3 hao3 {boost}"])
            found = proposals.find_hypotheses(acoustic, language, **batch, hotwords=hotwords)
            listed = cascade.list_candidates(acoustic, language, *found)
            for model in models:
                cascade.restore(session, model, checkpoints.latest(model.path))
            session.run(tf.compat.v1.tables_initializer())
            texts, values = session.run([listed.texts, listed.scores])
        scores.append(dict(zip(texts[0, 10:], values[0, 10:])))
    plain, boosted = scores
    gains = {text.decode(): boosted[text] - plain[text] for text in plain if np.isfinite(plain[text])}
    assert any("你好" in text for text in gains)
    for text, gain in gains.items():
        assert gain == pytest.approx(3.0 * text.count("你好"), abs=1e-3)
