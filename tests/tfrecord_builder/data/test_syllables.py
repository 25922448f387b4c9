import re

import numpy as np
import pypinyin
import pytest
from pypinyin.constants import PINYIN_DICT

from tfrecord_builder.data import syllables, vocabulary

# token=initial+final; the tone is the last character of the token.
_SPLIT = (
    "zhuang4=zh+uang ai4=+ai a5=+a lv4=l+v nve4=n+ve lue4=l+ve lu4=l+u ju4=j+v xue2=x+ve quan2=q+van "
    "jun1=j+vn yi1=+i yan2=+ian ye3=+ie you3=+iou liu2=l+iou ying1=+ing yong3=+iong xiong2=x+iong yu2=+v "
    "yue4=+ve yuan2=+van wu3=+u wei4=+uei gui4=g+uei wen2=+uen dun4=d+uen weng1=+ueng zhi1=zh+-i si4=s+-i "
    "ri4=r+-i er2=+er r5=+er dianr3=d+ianr zher4=zh+er wanr2=+uanr ng2=+ng hm5=h+m"
)


@pytest.mark.parametrize("case", _SPLIT.split())
def test_split_syllable(case):
    token, initial, final = re.split("[=+]", case)
    assert syllables.split_syllable(token) == (initial, final, token[-1])


@pytest.mark.parametrize(
    "token",
    ["", "4", "a", "ma", "ma0", "ma6", "Ma1", "ma1ma1", "<unk>", "<space>", "bzz4", "你", "yy1", "wr1"],
)
def test_other_tokens_are_not_split(token):
    assert syllables.split_syllable(token) is None


@pytest.mark.long
def test_every_reading_of_pypinyin_splits_uniquely():
    tokens = _list_readings()
    assert len(tokens) > 1400
    splits = {token: syllables.split_syllable(token) for token in tokens}
    assert {token for token, split in splits.items() if split is None} <= {"wong4"}  # a Cantonese reading
    tokens -= {"wong4"}
    assert all(map(syllables.exists, tokens))
    rows = {token: row.tobytes() for token, row in zip(sorted(tokens), syllables.part_matrix(sorted(tokens)))}
    same = {}
    for token, row in rows.items():
        same.setdefault(row, []).append(token)
    assert [group for group in same.values() if len(group) > 1] == []


@pytest.mark.parametrize(
    "token", ["jang1", "qu5r1", "fian2", "bua3", "gi4", "ruang2", "sia1", "hao9", "a", ""]
)
def test_some_tokens_that_can_be_split_do_not_exist(token):
    assert not syllables.exists(token)


@pytest.mark.parametrize("token", ["jiang1", "huar1", "r5", "ng2", "yai2", "duang1", "lue4", "nv3"])
def test_syllables_that_exist(token):
    assert syllables.exists(token)


@pytest.mark.parametrize(
    ("token", "expected"),
    [("zhong1", "zhong"), ("dianr3", "dianr"), ("a5", "a"), ("a", "A"), ("ok", "OK"), ("3", "3")]
    + [("wong4", "wong4"), ("AH0", "AH0"), ("é", "é"), ("<unk>", "<unk>"), ("犇", "犇")],
)
def test_without_tone(token, expected):
    assert syllables.without_tone(token) == expected


def test_tokens_that_sound_alike_share_columns_of_the_part_matrix():
    you, liu, liu4, unknown = syllables.part_matrix(["you3", "liu3", "liu4", "<unk>"])
    assert you @ you == 4  # shared: initial, final, tone, and final with tone
    assert you @ liu == 3  # shared: all but the initial
    assert liu @ liu4 == 2  # shared: initial and final
    assert not unknown.any()


def test_part_matrix_marks_er_hua_in_addition_to_the_final():
    plain, er_hua, er = syllables.part_matrix(["zhe4", "zher4", "er4"])
    assert er_hua @ er_hua == 5 and plain @ er_hua == 4
    assert er @ er == 4 and er @ er_hua == 1  # shared: only the tone


def test_columns_do_not_depend_on_the_tokens():
    matrix = syllables.part_matrix(["ma1", "x", "zhuang4"])
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix[2:], syllables.part_matrix(["zhuang4"]))
    np.testing.assert_array_equal(np.flatnonzero(syllables.part_matrix(["ba1"])), [1, 22, 65, 70])
    assert syllables.part_matrix([]).shape == (0, matrix.shape[1])


def _list_readings():
    """Returns all readings that pypinyin knows."""
    style = dict(style=pypinyin.Style.TONE3, v_to_u=False, neutral_tone_with_five=True)
    options = dict(style, heteronym=True, errors="ignore")
    return set().union(*(pypinyin.pinyin(chr(code), **options)[0] for code in PINYIN_DICT))


def _inventory():
    """Returns all syllables that pypinyin knows, with and without er-hua."""
    plain = {token for token in _list_readings() if syllables.split_syllable(token)}
    er_hua = {f"{token[:-1]}r{token[-1]}" for token in plain if not token[:-1].endswith("r")}
    return sorted(plain | er_hua | {"r5"})


def _join(tokens):
    return vocabulary.join_tokens(tokens, "initial_final")


_INITIAL_FINAL = (
    "zhong1=zh+ong1 guo2=g+uo2 an1=an1 er2=er2 you3=iou3 liu2=l+iou2 yu4=v4 ju4=j+v4 lu4=l+u4 lv4=l+v4 "
    "zhi1=zh+-i1 yi1=i1 wen2=uen2 dianr3=d+ianr3 r5=r5 ng2=ng2 b=B zh=ZH 3=3 HH=HH AH0=AH0 𪻺=𪻺 <unk>=<unk>"
)


@pytest.mark.parametrize("case", _INITIAL_FINAL.split())
def test_split_initial_final(case):
    token, *parts = re.split("[=+]", case)
    assert syllables.split_initial_final(token) == tuple(parts)


@pytest.mark.long
def test_every_syllable_survives_a_round_trip():
    inventory = _inventory()
    assert len(inventory) > 2500
    assert [_join(syllables.split_initial_final(token)) for token in inventory] == inventory


@pytest.mark.long
def test_sentences_survive_a_round_trip():
    inventory = _inventory()
    for step in (1, 7, 101):
        sentence = [inventory[step * i % len(inventory)] for i in range(2000)]
        parts = [part for token in sentence for part in syllables.split_initial_final(token)]
        assert _join(parts) == " ".join(sentence)


def test_letters_are_neither_initials_nor_finals():
    sentence = ["b", "zhan4", "b", "an1", "a", "zh", "e5", "3", "lou2"]
    parts = [part for token in sentence for part in syllables.split_initial_final(token)]
    assert parts == "B zh an4 B an1 A ZH e5 3 l ou2".split()
    assert _join(parts) == "B zhan4 B an1 A ZH e5 3 lou2"


def test_invalid_sequences_are_not_joined():
    assert _join("zh zh ong1 g <unk> ong1".split()) == "zh zhong1 g <unk> ong1"
    assert _join([]) == ""
