from tfrecord_builder import labels, manifest


def _label(text="", pinyin="", unit="syllable"):
    return labels.make_labels(manifest.Utterance("u1", None, "s", text, pinyin, "train"), unit)


def test_given_pinyin_wins_over_the_dictionary():
    assert _label("一个", "yi1 ge5").tokens == ("yi1", "ge5")
    assert _label("一个").tokens == ("yi2", "ge4")


def test_characters_stand_against_syllables():
    found = _label("你好，", "ni3 hao3")
    assert found.transcript == "你好"
    assert found.characters == ("你", "好")


def test_characters_are_empty_where_they_do_not_fit():
    assert _label("花儿", "huar1").characters == ()
    assert _label("zhu4", "zhu4") == labels.Labels("zhu4", ("zhu4",), ())


def test_pinyin_without_a_transcript():
    assert _label("", "ni3 hao3") == labels.Labels("", ("ni3", "hao3"), ())


def test_latin_letters_are_tokens_of_one_character():
    found = _label("百盛（天山店A楼）")
    assert found.tokens == ("bai3", "sheng4", "tian1", "shan1", "dian4", "a", "lou2")
    assert "".join(found.characters) == "百盛天山店a楼"


def test_latin_letters_in_a_pronunciation_are_no_syllables():
    assert _label("A楼", "A lou2") == labels.Labels("a楼", ("a", "lou2"), ("a", "楼"))
    assert _label("OK", "o k") == labels.Labels("ok", ("o", "k"), ("o", "k"))
    assert _label("啊", "a") == labels.Labels("啊", ("a5",), ("啊",))


def test_characters_as_tokens():
    assert _label("听Let It", unit="character") == labels.Labels(
        "听let it", ("听", "l", "e", "t", "<space>", "i", "t"), ()
    )
