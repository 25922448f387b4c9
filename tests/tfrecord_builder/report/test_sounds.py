from tfrecord_builder.report import sounds


def test_parts_of_syllables():
    counts = {"zhuang4": 3, "you3": 2, "dianr3": 1, "er2": 1, "r5": 1, "a": 4, "<unk>": 1}
    assert sounds.count(counts, "syllable") == {
        "tones": {"4": 3, "3": 3, "2": 1, "5": 1, "other": 5},
        "initials": {"zh": 3, "none": 4, "d": 1},
        "finals": {"uang": 3, "iou": 2, "ian": 1, "er-hua": 1, "er": 2},
    }


def test_syllables_without_tones_have_no_tones():
    assert sounds.count({"ma": 2, "yu": 1, "A": 1}, "toneless") == {
        "initials": {"m": 2, "none": 1},
        "finals": {"a": 2, "v": 1},
    }


def test_initials_and_finals_as_tokens():
    counts = {"zh": 3, "ong1": 2, "iou3": 1, "ianr3": 1, "er2": 1, "A": 1, "7": 1}
    assert sounds.count(counts, "initial_final") == {
        "tones": {"1": 2, "3": 2, "2": 1, "other": 2},
        "initials": {"zh": 3},
        "finals": {"ong": 2, "iou": 1, "ian": 1, "er-hua": 1, "er": 1},
    }


def test_other_token_types_have_no_such_parts():
    assert sounds.count({"ma1": 2}, "character") == sounds.count({"ma1": 2}, "bpe") == {}
