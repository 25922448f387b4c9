import unicodedata

import pytest

from tfrecord_builder.labels import normalisation


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        ("而 对 楼市 成交", "而对楼市成交"),
        ("你好\r\n", "你好"),
        ("\ufeff你好", "你好"),
        ("ＡＢＣ　１２", "abc 12"),
        ("百盛(天山店A楼)", "百盛天山店a楼"),
        ("O P A（淮海店）", "o p a淮海店"),
        ("想听歌曲Let It Go", "想听歌曲let it go"),
        ("你好，世界！“是的”。", "你好世界是的"),
        ("It's   OK,really", "its ok really"),
        ("零\t一\u200b二", "零一二"),
        ("①㈱ 5℃", "1株5摄氏度"),
        ("我❤️北京1️⃣号🏙️", "我北京1号"),  # variation selectors, a keycap and emoji
        ("葛\U000e0100城", "葛城"),
        ("30m²，5㎡，2m³", "30平方米5平方米2立方米"),
        ("ที่นี่", "ที่นี่"),  # combining vowels and tone marks are kept
        ("，。 ", ""),
        ("二〇二四", "二〇二四"),
        ("𪻺 𪻺", "𪻺𪻺"),
        ("cafe\u0301", "café"),
        ("H\u0331", "\u1e96"),  # the composed letter exists only in lower case
        ("ＯＰＡ（淮海 店）Let's go, 3.5％", "opa淮海店lets go 3 5"),
        # Radicals become hanzi, and symbols words.
        ("⻢上出发", "马上出发"),
        ("⼈⺠⽣活", "人民生活"),
        ("⺫⻛⻩⻰㇐", "目风黄龙一"),
        ("第Ⅳ章❶②③⑴㈠", "第4章1 2 3 1 1"),
        ("A＋B＝C", "a加b等于c"),
        ("a + b = c", "a加b等于c"),
        ("x²≠y", "x2不等于y"),
        ("鸡蛋+牛奶", "鸡蛋加牛奶"),
        ("C++和A+", "c加加和a加"),
        ("a×b÷c", "a乘b除以c"),
        ("a<b，b≥c", "a小于b b大于等于c"),
        ("≤5，>3", "小于等于5大于3"),
        ("误差±5", "误差正负5"),
        ("√2≈1", "根号2约等于1"),
        ("∞", "无穷大"),
        ("39°，30℉", "39度30华氏度"),
        ("<b>你好</b>", "b你好b"),
        ("张×同学，+1，==", "张同学1"),
        ("R&B@家#1", "r b家1"),
    ],
)
def test_normalise(transcript, expected):
    assert normalisation.normalise(transcript) == expected
    assert normalisation.normalise(expected) == expected


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        ("你好，你 好！", ["你好", "你好"]),
        ("而 对 楼市", ["而对楼市"]),
        ("It\u2019s OK, really", ["its ok", "really"]),
        ("“你”（好）...", ["你", "好"]),
        # Python versions disagree on whether a sigma before a full stop is final.
        ("ΑΣ.Β", ["ας", "β"] if "ΑΣ.Β".lower() == "ας.β" else ["ασ", "β"]),
        ("，", []),
    ],
)
def test_phrases_end_at_punctuation(transcript, expected):
    assert normalisation.split_phrases(transcript) == expected
    assert "".join(expected).replace(" ", "") == normalisation.normalise(transcript).replace(" ", "")


def test_split_phrases_replaces_symbols_by_words():
    assert normalisation.split_phrases("A＋B，C＝D") == ["a加b", "c等于d"]


def test_every_radical_becomes_one_hanzi():
    radicals = [chr(code) for code in range(0x2E81, 0x2FD6) if unicodedata.category(chr(code)) == "So"]
    assert len(radicals) == 114 + 214
    for radical in radicals:
        hanzi = normalisation.normalise(radical)
        assert len(hanzi) == 1 and normalisation.is_hanzi(hanzi) and not 0x2E80 <= ord(hanzi) < 0x2FE0


@pytest.mark.parametrize(
    ("transcript", "found"),
    [
        ("刘\ue863是皇帝", "U+E863 (private use)"),
        ("我和\ufffd你", "U+FFFD (replacement character)"),
        ("图\ufffc", "U+FFFC (object replacement character)"),
        ("响\x07铃", "U+0007 (control character)"),
        ("半\ud83d", "U+D83D (unpaired surrogate)"),
        ("空\u0378", "U+0378 (unassigned)"),
        ("李〓", "U+3013 (geta mark)"),
        ("⿰亻尔", "U+2FF0 (ideographic description character left to right)"),
        ("⺀", "U+2E80 (cjk radical repeat)"),
        ("零\t一\n\u200b\ufeff⻢🫠", ""),
    ],
)
def test_unreadable_characters_are_found(transcript, found):
    assert normalisation.find_unreadable(transcript) == found


def test_characters_that_are_left_out_are_counted_by_kind():
    counts = normalisation.count_left_out("我❤️北京🏙🏻★，\u200b\ufeffR&B~100%，A+B。")
    assert counts == {
        "emoji and other pictures": 4,
        "enclosing marks and variation selectors": 1,
        "zero-width characters": 2,
        "symbols": 3,
    }
    assert not normalisation.count_left_out("你好，“世界”！It's 3.5 (A+B=C)…")
