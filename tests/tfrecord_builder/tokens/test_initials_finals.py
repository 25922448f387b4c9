import pypinyin
import pytest
from pypinyin.constants import PINYIN_DICT

from tfrecord_builder.tokens import initials_finals, syllables, vocabulary


def _inventory():
    """Every syllable that pypinyin knows, each also with er-hua."""
    style = dict(style=pypinyin.Style.TONE3, v_to_u=False, neutral_tone_with_five=True)
    tokens = set()
    for character in map(chr, PINYIN_DICT):
        tokens.update(pypinyin.pinyin(character, heteronym=True, errors="ignore", **style)[0])
    plain = {token for token in tokens if syllables.split_syllable(token)}
    er_hua = {f"{token[:-1]}r{token[-1]}" for token in plain if not token[:-1].endswith("r")}
    return sorted(plain | er_hua | {"r5"})


def _join(tokens):
    return vocabulary.join_tokens(tokens, "initial_final")


@pytest.mark.parametrize(
    ("token", "parts"),
    [
        ("zhong1", "zh ong1"),
        ("guo2", "g uo2"),
        ("an1", "an1"),
        ("er2", "er2"),
        ("you3", "iou3"),
        ("liu2", "l iou2"),
        ("yu4", "v4"),
        ("ju4", "j v4"),
        ("lu4", "l u4"),
        ("lv4", "l v4"),
        ("zhi1", "zh -i1"),
        ("yi1", "i1"),
        ("wen2", "uen2"),
        ("dianr3", "d ianr3"),
        ("r5", "r5"),
        ("ng2", "ng2"),
        ("b", "B"),
        ("zh", "ZH"),
        ("3", "3"),
        ("HH", "HH"),
        ("AH0", "AH0"),
        ("𪻺", "𪻺"),
        ("<unk>", "<unk>"),
    ],
)
def test_split(token, parts):
    assert initials_finals.split(token) == tuple(parts.split())


def test_every_syllable_survives_a_round_trip():
    inventory = _inventory()
    assert len(inventory) > 2500
    assert {token: _join(initials_finals.split(token)) for token in inventory} == {t: t for t in inventory}


def test_sentences_survive_a_round_trip():
    inventory = _inventory()
    for step in (1, 7, 101):
        sentence = [inventory[step * i % len(inventory)] for i in range(2000)]
        parts = [part for token in sentence for part in initials_finals.split(token)]
        assert _join(parts) == " ".join(sentence)


def test_letters_are_neither_initials_nor_finals():
    sentence = ["b", "zhan4", "b", "an1", "a", "zh", "e5", "3", "lou2"]
    parts = [part for token in sentence for part in initials_finals.split(token)]
    assert parts == "B zh an4 B an1 A ZH e5 3 l ou2".split()
    assert _join(parts) == "B zhan4 B an1 A ZH e5 3 lou2"


def test_invalid_sequences_are_not_joined():
    assert _join("zh zh ong1 g <unk> ong1".split()) == "zh zhong1 g <unk> ong1"
    assert _join([]) == ""
