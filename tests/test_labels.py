import subprocess
import sys

import pytest

from tfrecord_builder import bpe, errors, labels, manifest, vocabulary


def _utterance(text="", pinyin=""):
    return manifest.Utterance("u1", None, "s", text, pinyin, "train")


def _label(text="", pinyin="", **options):
    return labels.Labeller(labels.LabelConfig(**options))(_utterance(text, pinyin))


def _tokens(text="", pinyin="", **options):
    return " ".join(_label(text, pinyin, **options).tokens)


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


def test_syllables_without_tone_stand_against_characters():
    found = _label("啊A楼3", unit="toneless")
    assert found == labels.Labels("啊a楼3", ("a", "A", "lou", "3"), ("啊", "a", "楼", "3"))
    assert _label("你们", "ni3 men", unit="toneless").tokens == ("ni", "men")


def test_initials_and_finals():
    assert _label("中国A楼", unit="initial_final") == labels.Labels(
        "中国a楼", tuple("zh ong1 g uo2 A l ou2".split()), ()
    )
    assert _tokens("", "you3 HH r5", unit="initial_final") == "iou3 HH r5"


def test_pieces():
    model = bpe.BpeModel(bpe.train(["the cat", "the mat"] * 3, 40))
    labeller = labels.Labeller(labels.LabelConfig(unit="bpe"), model)
    assert labeller(_utterance("The CAT!", "x")) == labels.Labels("the cat", ("▁the", "▁cat"), ())
    assert labeller(_utterance("", "ni3")) == labels.Labels("", (), ())


@pytest.mark.parametrize("unit", [unit for unit in vocabulary.UNITS if unit != "bpe"])
def test_joined_tokens_are_what_was_said(unit):
    written = vocabulary.join_tokens(_label("百盛A楼", unit=unit).tokens, unit)
    assert (
        written
        == {
            "syllable": "bai3 sheng4 a lou2",
            "toneless": "bai sheng A lou",
            "initial_final": "bai3 sheng4 A lou2",
            "character": "百盛a楼",
        }[unit]
    )


def test_tone_sandhi_ends_at_punctuation():
    assert _tokens("你好，你好", tone_sandhi=True) == "ni2 hao3 ni2 hao3"
    assert _tokens("你好 你 好", tone_sandhi=True) == "ni2 hao3 ni2 hao3"
    assert _tokens("有，有", tone_sandhi=True) == "you3 you3"
    assert _tokens("有有", tone_sandhi=True) == "you2 you3"
    assert _tokens("有a有", tone_sandhi=True) == "you3 a you3"
    assert _label("我想，A楼", tone_sandhi=True).characters == tuple("我想a楼")


def test_words_end_at_punctuation():
    assert _tokens("看了解释") == "kan4 liao3 jie3 shi4"  # a word is 了解
    assert _tokens("看了，解释") == "kan4 le5 jie3 shi4"
    assert _label("看了，解释！A楼").characters == tuple("看了解释a楼")


def test_tone_sandhi_is_only_for_pinyin_that_is_made_here():
    assert _tokens("你好", "ni3 hao3", tone_sandhi=True) == "ni3 hao3"
    assert _tokens("你好") == "ni3 hao3"
    assert _tokens("你好", tone_sandhi=True, unit="initial_final") == "n i2 h ao3"


def test_numbers_stay_or_are_read():
    assert _label("3楼50%").transcript == "3楼50"
    assert _tokens("3楼") == "3 lou2"
    found = _label("3楼，50%。", numbers="read")
    assert found.transcript == "三楼百分之五十"
    assert found.tokens == tuple("san1 lou2 bai3 fen1 zhi1 wu3 shi2".split())
    assert _label("3.5 and 2", numbers="read", unit="character").transcript == "三点五and二"


@pytest.mark.parametrize(
    ("text", "pinyin", "transcript"),
    [
        ("3楼", "san1 lou2", "三楼"),  # pairs only so
        ("50%", "bai3 fen1 zhi1 wu3 shi2", "百分之五十"),
        ("3楼", "3 lou2", "3楼"),  # pairs as it is
        ("23楼", "er4 san1 lou2", "23楼"),  # said in another way
        ("23楼", "\u200b", "二十三楼"),  # no pinyin
    ],
)
def test_numbers_beside_given_pinyin(text, pinyin, transcript):
    assert _label(text, pinyin, numbers="read").transcript == transcript
    assert _label(text, pinyin).transcript == text.replace("%", "")


def test_transcripts_to_learn_pieces_from():
    config = labels.LabelConfig(unit="bpe", numbers="read")
    assert labels.make_transcript(_utterance("It's 3!"), config) == "its三"


def test_user_dictionary(tmp_path):
    path = tmp_path / "names.tsv"
    path.write_text("重庆\tzhong4 qing4\n", "utf-8")
    assert _tokens("重庆", user_dictionary=str(path)) == "zhong4 qing4"
    assert _tokens("重庆", unit="toneless", user_dictionary=str(path)) == "zhong qing"
    assert _tokens("重庆") == "chong2 qing4"
    with pytest.raises(errors.UserError, match="--user_dictionary: .*line 1: it has no tab"):
        path.write_text("重庆", "utf-8")
        _label("重庆", user_dictionary=str(path))


def test_dictionary_tokens():
    def read(character, **options):
        return labels.dictionary_tokens(character, labels.LabelConfig(**options))

    assert read("好") == {"hao3", "hao4"}
    assert read("好", tone_sandhi=True) == {"hao2", "hao3", "hao4"}
    assert read("好", unit="toneless") == {"hao"}
    assert read("a") == read("<space>") == read("𪻺") == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(unit="word"), "--unit=word: expected one of syllable, toneless, initial_final, character, bpe"),
        (dict(numbers="x"), "--numbers=x: expected one of keep, read"),
        (dict(unit="bpe", bpe_size=0), "--bpe_size=0: expected at least 1"),
        (
            dict(bpe_size=900),
            r"--unit=syllable, --bpe_size=900: that flag is for --unit=bpe, .*leave the",
        ),
        (dict(unit="toneless", tone_sandhi=True), r"--tone_sandhi=True: .* --unit=syllable\|initial_final"),
        (
            dict(unit="character", user_dictionary="x"),
            r"--user_dictionary=x: .*=syllable\|toneless\|i",
        ),
    ],
)
def test_config_refuses(options, message):
    with pytest.raises(errors.UserError, match=message):
        labels.LabelConfig(**options)


def test_libraries_load_only_where_they_are_needed():
    code = (
        "import sys; from tfrecord_builder import labels, manifest;"
        "u = manifest.Utterance('u', None, '', '3楼', '', 'train');"
        "labels.Labeller(labels.LabelConfig())(u); print({'cn2an', 'sentencepiece'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
