"""Tests prompts: the input for engines, the digest, and random generators."""

import dataclasses

import pytest

from tfrecord_builder.synthesis import espeak, prompts

PROMPT = prompts.Prompt(
    utterance_id="u1",
    split="train",
    speaker="speaker",
    phrases=(("你好",), ("小", "老虎")),
    pinyin=("ni3", "hao3", "xiao3", "lao3", "hu3"),
    text="你好，小老虎！",
)
ENGINE = espeak.EspeakEngine(seed=1)


def test_spelling_joins_words_and_has_a_comma_and_no_tone_sandhi_at_pauses():
    assert ENGINE.spell(PROMPT) == ["ni2hao3,", "xiao3", "lao2hu3"]


@pytest.mark.parametrize(
    "change",
    [
        {"utterance_id": "u2"},
        {"speaker": "other"},
        {"phrases": (("您好",), ("小", "老虎"))},
        {"phrases": (("你好",), ("小老虎",))},
        {"pinyin": ("ni3", "hao3", "xiao3", "lao3", "hu5")},
    ],
    ids=str,
)
def test_fingerprint_changes_with_the_speaker_the_words_and_their_pinyin(change):
    other = dataclasses.replace(PROMPT, **change)
    assert prompts.fingerprint([other], ENGINE) != prompts.fingerprint([PROMPT], ENGINE)
    assert prompts.fingerprint([PROMPT], ENGINE) == prompts.fingerprint([PROMPT], ENGINE)


def test_random_numbers_never_change():
    assert prompts.random_state(1, "f1").randint(1000, size=3).tolist() == [293, 735, 917]
