import pytest

from tfrecord_builder.labels import normalisation, tokenisation


def test_to_characters_names_the_space():
    assert tokenisation.to_characters("go好 a") == ["g", "o", "好", "<space>", "a"]


@pytest.mark.parametrize(
    ("pinyin", "expected"),
    [
        ("LV4 nü3 lu:4 lu\u03084", "lv4 nv3 lv4 lv4"),
        ("de men0 ma5", "de5 men5 ma5"),
        ("lue4 nue4 lve4", "lve4 nve4 lve4"),
        ("jv4 qv4 xvan1 yv2", "ju4 qu4 xuan1 yu2"),
        ("  yi1\tgu4\r\n", "yi1 gu4"),
        ("huar1 r5", "huar1 r5"),
        ("HH AH0 L OW1", "HH AH0 L OW1"),  # English phones are kept
        ("M N R NG ER0", "M N R NG ER0"),
        ("A Ma MA0 o k", "A Ma MA0 o k"),  # these may be letters or syllables
        ("er ng a0", "er5 ng5 a5"),
        ("ni3\u200b hao3 \ufeff", "ni3 hao3"),
        ("", ""),
    ],
)
def test_normalise_pinyin(pinyin, expected):
    assert tokenisation.normalise_pinyin(pinyin) == expected.split()


@pytest.mark.parametrize(
    ("transcript", "pinyin", "expected"),
    [
        ("a楼", "A lou2", "a lou2"),
        ("ok", "o k", "o k"),
        ("啊你好", "a NI3 HAO", "a5 ni3 hao5"),
        ("花儿", "hua1 r", "hua1 r5"),
        ("let it", "L e t i t", "l e t i t"),
        ("3楼", "3 lou2", "3 lou2"),
        ("3楼", "san1 lou2", "san1 lou2"),
        ("a楼上", "A lou2", "A lou2"),  # fewer tokens than characters
        ("好玩儿啊", "hao3 wanr2 a", "hao3 wanr2 a5"),  # the transcript does not contain the letter a
        ("绿你好吗", "lǜ nǐ HǍO ma", "lv4 ni3 hao3 ma5"),
        ("你好，啊", "ni3 hao3 ， a", "ni3 hao3 a5"),
        ("é", "é", "é"),
    ],
)
def test_normalise_pinyin_with_a_transcript(transcript, pinyin, expected):
    assert tokenisation.normalise_pinyin(pinyin, normalisation.normalise(transcript)) == expected.split()


@pytest.mark.parametrize(
    ("transcript", "pinyin", "expected"),
    [
        ("你好", "ni3 hao9", "hao9"),
        ("你好", "ni3 xyz3", "xyz3"),
        ("长江", "chang2 jang1", "jang1"),
        ("你", "nh1", "nh1"),
        ("", "nh1 hao3", "nh1"),
        ("hao9", "hao9", "hao9"),  # the transcript is pinyin
        ("你好", "ni3 hoa", "hoa"),
        ("你好", "ni3hao3", "ni3hao3"),
        ("wifi密码", "wifj mi4 ma3", "wifj"),
        # Valid: er-hua, interjections, spellings, Latin letters, English and digits.
        ("花儿", "hua1 r5", ""),
        ("花儿", "hua1 r", ""),
        ("花儿", "huar1", ""),
        ("绿绿绿女", "lv4 lü4 lu:4 nü", ""),
        ("略略", "lve4 lue4", ""),
        ("哼嗯姆诶哦", "hm5 ng2 m2 e2 o1", ""),
        ("你好的", "NI3 Hao3 de0", ""),
        ("a楼ok", "A lou2 O k", ""),
        ("wifi密码", "WiFi mi4 ma3", ""),
        ("23楼", "23 lou2", ""),
        ("慕𪻺", "mu4 𪻺", ""),
        # Phones of another language.
        ("hello", "hh ah0 l ow1", ""),
        ("", "HH AH0 L OW1", ""),
        ("", "", ""),
    ],
)
def test_unknown_syllables(transcript, pinyin, expected):
    assert tokenisation.unknown_syllables(pinyin, transcript) == expected.split()


@pytest.mark.parametrize(
    ("transcript", "tokens", "expected"),
    [
        ("你好", "ni3 hao3", "你好"),
        ("花儿", "huar1", ""),
        ("a1", "a1", ""),
        ("a楼", "a lou2", "a楼"),
        ("hi", "HH AY1", ""),
        ("o k好", "o k hao3", "ok好"),
        ("", "ni3", ""),
    ],
)
def test_align(transcript, tokens, expected):
    assert tokenisation.align(transcript, tokens.split()) == list(expected)
