import subprocess
import sys

import pytest

from tfrecord_builder import errors
from tfrecord_builder.data import manifest, vocabulary
from tfrecord_builder.labels import labelling, subwords


def _utterance(text="", pinyin=""):
    return manifest.Utterance("u1", None, "s", text, pinyin, "train")


def _label(text="", pinyin="", **options):
    return labelling.Labeller(labelling.LabelConfig(**options))(_utterance(text, pinyin))


def _tokens(text="", pinyin="", **options):
    return " ".join(_label(text, pinyin, **options).tokens)


@pytest.mark.parametrize(
    ("text", "pinyin", "token_type", "transcript", "tokens", "characters"),
    [
        # The corpus's pinyin takes precedence over the dictionary's.
        ("一个", "yi1 ge5", "syllable", "一个", "yi1 ge5", "一个"),
        ("一个", "", "syllable", "一个", "yi2 ge4", "一个"),
        # Characters align one to one with syllables, or are left out.
        ("你好，", "ni3 hao3", "syllable", "你好", "ni3 hao3", "你好"),
        ("花儿", "huar1", "syllable", "花儿", "huar1", ""),
        ("zhu4", "zhu4", "syllable", "zhu4", "zhu4", ""),
        ("", "ni3 hao3", "syllable", "", "ni3 hao3", ""),
        # A Latin letter is a token of one character, not a syllable.
        ("山店（A楼）", "", "syllable", "山店a楼", "shan1 dian4 a lou2", "山店a楼"),
        ("A楼", "A lou2", "syllable", "a楼", "a lou2", "a楼"),
        ("OK", "o k", "syllable", "ok", "o k", "ok"),
        ("啊", "a", "syllable", "啊", "a5", "啊"),
        ("啊A楼3", "", "toneless", "啊a楼3", "a A lou 3", "啊a楼3"),
        ("你们", "ni3 men", "toneless", "你们", "ni men", "你们"),
        ("听Let It", "", "character", "听let it", "听 l e t <space> i t", ""),
        ("中国A楼", "", "initial_final", "中国a楼", "zh ong1 g uo2 A l ou2", ""),
        ("", "you3 HH r5", "initial_final", "", "iou3 HH r5", ""),
    ],
)
def test_labels_of_every_token_type(text, pinyin, token_type, transcript, tokens, characters):
    expected = labelling.Labels(transcript, tuple(tokens.split()), tuple(characters))
    assert _label(text, pinyin, token_type=token_type) == expected


def test_token_type_bpe():
    model = subwords.train(["the cat", "the mat"] * 3, 40)
    labeller = labelling.Labeller(labelling.LabelConfig(token_type="bpe"), model)
    assert labeller(_utterance("The CAT!", "x")) == labelling.Labels("the cat", ("▁the", "▁cat"), ())
    assert labeller(_utterance("", "ni3")) == labelling.Labels("", (), ())


@pytest.mark.parametrize(
    ("token_type", "joined"),
    [
        ("syllable", "bai3 sheng4 a lou2"),
        ("toneless", "bai sheng A lou"),
        ("initial_final", "bai3 sheng4 A lou2"),
        ("character", "百盛a楼"),
    ],
)
def test_joined_tokens_equal_the_reference(token_type, joined):
    assert vocabulary.join_tokens(_label("百盛A楼", token_type=token_type).tokens, token_type) == joined


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("我想，领导", "wo2 xiang3 ling2 dao3"),
        ("你好，你好", "ni2 hao3 ni2 hao3"),
        ("你好 你 好", "ni2 hao3 ni2 hao3"),
        ("有，有", "you3 you3"),
        ("有有", "you2 you3"),
        ("有a有", "you3 a you3"),
    ],
)
def test_tone_sandhi_ends_at_punctuation_and_letters_but_not_at_spaces(text, spoken):
    assert _tokens(text, tone_sandhi=True) == spoken


def test_characters_align_with_changed_tones():
    assert _label("我想，A楼", tone_sandhi=True).characters == tuple("我想a楼")


def test_phrases_of_the_users_dictionary_keep_their_tones(tmp_path):
    path = tmp_path / "names.tsv"
    path.write_text("马老五\tma3 lao2 wu3\n", "utf-8")
    assert _tokens("马老五有水果", tone_sandhi=True) == "ma3 lao2 wu2 you3 shui2 guo3"
    options = dict(tone_sandhi=True, user_dictionary=str(path))
    assert _tokens("马老五有水果", **options) == "ma3 lao2 wu3 you3 shui2 guo3"


def test_words_do_not_cross_punctuation():
    assert _tokens("看了解释") == "kan4 liao3 jie3 shi4"  # 了解 is a word
    assert _tokens("看了，解释") == "kan4 le5 jie3 shi4"
    assert _label("看了，解释！A楼").characters == tuple("看了解释a楼")


def test_tone_sandhi_does_not_change_pinyin_of_the_corpus():
    assert _tokens("你好", "ni3 hao3", tone_sandhi=True) == "ni3 hao3"
    assert _tokens("你好") == "ni3 hao3"
    assert _tokens("你好", tone_sandhi=True, token_type="initial_final") == "n i2 h ao3"


@pytest.mark.parametrize("token_type", vocabulary.TOKEN_TYPES)
def test_unknown_syllables_are_found_only_in_pinyin_that_becomes_tokens(token_type):
    labeller = labelling.Labeller(labelling.LabelConfig(token_type=token_type))
    expected = ["hao9"] if token_type in ("syllable", "toneless", "initial_final") else []
    assert labeller.unknown_syllables(_utterance("你好", "ni3 hao9"), "你好") == expected
    assert labeller.unknown_syllables(_utterance("慕𪻺"), "慕𪻺") == []  # the corpus has no pinyin


def test_numbers_are_kept_or_read():
    assert _label("3楼50%").transcript == "3楼50"
    assert _tokens("3楼") == "3 lou2"
    found = _label("3楼，50%。", numbers="read")
    assert found.transcript == "三楼百分之五十"
    assert found.tokens == tuple("san1 lou2 bai3 fen1 zhi1 wu3 shi2".split())
    assert _label("3.5 and 2", numbers="read", token_type="character").transcript == "三点五and二"


@pytest.mark.parametrize(
    ("text", "pinyin", "transcript"),
    [
        ("3楼", "san1 lou2", "三楼"),  # aligns only if the number is read
        ("50%", "bai3 fen1 zhi1 wu3 shi2", "百分之五十"),
        ("3楼", "3 lou2", "3楼"),  # aligns as it is
        ("23楼", "er4 san1 lou2", "23楼"),  # the speaker reads the digits one by one
        ("23楼", "\u200b", "二十三楼"),  # there is no pinyin
    ],
)
def test_numbers_of_transcripts_with_pinyin_are_read_only_if_they_then_align(text, pinyin, transcript):
    assert _label(text, pinyin, numbers="read").transcript == transcript
    assert _label(text, pinyin).transcript == text.replace("%", "")


def test_make_transcript_normalises_and_reads_numbers():
    config = labelling.LabelConfig(token_type="bpe", numbers="read")
    assert labelling.make_transcript(_utterance("It's 3!"), config) == "its三"


def test_user_dictionary(tmp_path):
    path = tmp_path / "names.tsv"
    path.write_text("重庆\tzhong4 qing4\n", "utf-8")
    assert _tokens("重庆", user_dictionary=str(path)) == "zhong4 qing4"
    assert _tokens("重庆", token_type="toneless", user_dictionary=str(path)) == "zhong qing"
    assert _tokens("重庆") == "chong2 qing4"
    with pytest.raises(errors.UserError, match="--user_dictionary: .*line 1: the tab is missing"):
        path.write_text("重庆", "utf-8")
        _label("重庆", user_dictionary=str(path))


def test_dictionary_tokens():
    def read(character, **options):
        return labelling.dictionary_tokens(character, labelling.LabelConfig(**options))

    assert read("好") == {"hao3", "hao4"}
    assert read("好", tone_sandhi=True) == {"hao2", "hao3", "hao4"}
    assert read("好", token_type="toneless") == {"hao"}
    assert read("a") == read("<space>") == read("𪻺") == set()


@pytest.mark.parametrize(
    ("token_type", "options", "message"),
    [
        ("word", {}, "--token_type=word: expected one of syllable, toneless, initial_final, character, bpe"),
        ("bpe", dict(numbers="x"), "--numbers=x: expected one of keep, read"),
        ("bpe", dict(bpe_vocab_size=0), "--bpe_vocab_size=0: expected at least 1"),
        (
            *("syllable", dict(bpe_vocab_size=900)),
            "--bpe_vocab_size=900 needs --token_type=bpe, but --token_type is syllable; leave --bpe_vocab",
        ),
        ("toneless", dict(tone_sandhi=True), r"=True needs --token_type=syllable\|initial_final, but"),
        ("character", dict(user_dictionary="x"), r"y=x needs --token_type=syllable\|toneless\|i"),
    ],
)
def test_config_refuses(token_type, options, message):
    with pytest.raises(errors.UserError, match=message):
        labelling.LabelConfig(token_type, **options)


def test_libraries_load_only_where_they_are_needed():
    code = (
        "import sys; from tfrecord_builder.data import manifest;"
        "from tfrecord_builder.labels import labelling;"
        "u = manifest.Utterance('u', None, '', '3楼', '', 'train');"
        "labelling.Labeller(labelling.LabelConfig())(u);"
        "print({'wetext', 'rjieba', 'sentencepiece'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
