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
        ("①㈱ 5℃", "1株5 c"),
        ("我❤️北京1️⃣号🏙️", "我北京1号"),  # with variation selectors and a keycap
        ("葛\U000e0100城", "葛城"),
        ("ที่นี่", "ที่นี่"),  # vowels and tones above letters
        ("，。 ", ""),
        ("二〇二四", "二〇二四"),
        ("𪻺 𪻺", "𪻺𪻺"),
        ("cafe\u0301", "café"),
        ("H\u0331", "\u1e96"),  # of which there is no capital letter
    ],
)
def test_normalise(transcript, expected):
    assert normalisation.normalise(transcript) == expected


def test_normalise_twice_changes_nothing():
    once = normalisation.normalise("ＯＰＡ（淮海 店）Let's go, 3.5％")
    assert normalisation.normalise(once) == once == "opa淮海店lets go 3 5"


@pytest.mark.parametrize(
    ("transcript", "expected"),
    [
        ("你好，你 好！", ["你好", "你好"]),
        ("而 对 楼市", ["而对楼市"]),
        ("It\u2019s OK, really", ["its ok", "really"]),
        ("“你”（好）...", ["你", "好"]),
        ("ΑΣ.Β", ["ας", "β"] if "ΑΣ.Β".lower() == "ας.β" else ["ασ", "β"]),  # a final sigma looks behind it
        ("，", []),
    ],
)
def test_phrases_end_at_punctuation(transcript, expected):
    assert normalisation.split_phrases(transcript) == expected
    assert "".join(expected).replace(" ", "") == normalisation.normalise(transcript).replace(" ", "")
