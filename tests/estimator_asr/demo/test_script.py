"""Who says what in the demo's corpus, at its real size."""

from __future__ import annotations

import pytest

from estimator_asr.demo import grammar, script
from tfrecord_builder import errors

SMALL = {"num_train": 60, "num_dev": 2, "num_test": 2, "num_text_sentences": 80, "min_occurrences": 1}


@pytest.fixture(scope="module")
def plan():
    return script.make_plan(script.SynthesisConfig())


def sentence_of(prompt):
    (words,) = prompt.phrases
    return words


def _of(plan, split):
    return [recording for recording in plan.prompts if recording.split == split]


def _readings(sentences):
    return {pair for sentence in sentences for word in sentence for pair in zip(word, grammar.read(word))}


def test_is_as_large_as_promised(plan):
    assert len({sentence_of(recording) for recording in plan.prompts}) >= 400
    assert len({recording.speaker.name for recording in plan.prompts}) >= 36
    assert len({recording.utterance_id for recording in plan.prompts}) == len(plan.prompts) == 3800
    assert {split: len(sentences) for split, sentences in plan.text.items()} == {
        "train": 6000,
        "dev": 80,
        "test": 120,
    }


@pytest.mark.parametrize("split, other", [("test", "train"), ("test", "dev"), ("dev", "train")])
def test_held_out_sentences_and_voices_are_unseen(plan, split, other):
    assert not {sentence_of(r) for r in _of(plan, split)} & {sentence_of(r) for r in _of(plan, other)}
    assert not {r.speaker.name for r in _of(plan, split)} & {r.speaker.name for r in _of(plan, other)}
    assert not {"".join(s) for s in plan.text[split]} & {"".join(s) for s in plan.text[other]}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_training_holds_every_reading_of_the_held_out_sentences(plan, split):
    held_out = [sentence_of(recording) for recording in _of(plan, split)]
    assert len(set(held_out)) == len(held_out)
    assert _readings(held_out) <= _readings(sentence_of(recording) for recording in _of(plan, "train"))
    assert set(held_out) == set(plan.text[split])


def test_text_has_every_spoken_sentence_once(plan):
    assert {sentence_of(recording) for recording in _of(plan, "train")} <= set(plan.text["train"])
    assert len({"".join(sentence) for sentence in plan.text["train"]}) == len(plan.text["train"])


def test_no_two_sentences_sound_alike(plan):
    hanzi_by_sound = {}
    for sentence in (sentence for sentences in plan.text.values() for sentence in sentences):
        sound = " ".join(syllable for word in sentence for syllable in grammar.read(word))
        assert hanzi_by_sound.setdefault(sound, "".join(sentence)) == "".join(sentence)


def test_same_seed_gives_the_same_plan_and_another_seed_another():
    plan = script.make_plan(script.SynthesisConfig(**SMALL))
    assert script.make_plan(script.SynthesisConfig(**SMALL)) == plan
    assert script.make_plan(script.SynthesisConfig(**SMALL, synthesis_seed=2)) != plan


def test_refuses_more_sentences_than_the_grammar_has(monkeypatch):
    monkeypatch.setattr(script, "_MAX_SAMPLES", 50)
    with pytest.raises(
        errors.UserError, match="--num_test: the grammar produced .* suitable sentences, expected 60; "
    ):
        script.make_plan(script.SynthesisConfig(num_train=60, num_dev=1, num_test=60, min_occurrences=1))
