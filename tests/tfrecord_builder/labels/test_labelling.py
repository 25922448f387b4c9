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
        (
            "百盛（天山店A楼）",
            "",
            "syllable",
            "百盛天山店a楼",
            "bai3 sheng4 tian1 shan1 dian4 a lou2",
            "百盛天山店a楼",
        ),
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
        # Words that pypinyin's dictionary lacks.
        ("老展览", "lao3 zhan2 lan3"),
        ("所以", "suo2 yi3"),
        ("管理", "guan2 li3"),
        ("领导", "ling2 dao3"),
        ("水果", "shui2 guo3"),
        ("老鼠", "lao2 shu3"),
        ("好水果", "hao3 shui2 guo3"),
        ("我管理水果", "wo3 guan2 li3 shui2 guo3"),
        ("老鼠想管理领导", "lao2 shu2 xiang3 guan2 li3 ling2 dao3"),
        # Inside words, and between them.
        ("我很好", "wo2 hen2 hao3"),
        ("展览馆", "zhan2 lan2 guan3"),
        ("管理者", "guan2 li2 zhe3"),
        ("小老虎", "xiao3 lao2 hu3"),
        ("李小姐", "li3 xiao2 jie3"),
        ("美好理想", "mei2 hao3 li2 xiang3"),
        ("请给我水果", "qing2 gei2 wo3 shui2 guo3"),
        ("他买雨伞", "ta1 mai3 yu2 san3"),
        ("海里有水", "hai2 li3 you2 shui3"),
        ("上海有小雨", "shang4 hai2 you3 xiao2 yu3"),
        ("我想，领导", "wo2 xiang3 ling2 dao3"),
        ("老师很忙", "lao3 shi1 hen3 mang2"),
        # Neutral tones, and reduplication.
        ("我们的", "wo3 men5 de5"),
        ("好的", "hao3 de5"),
        ("妈妈给姐姐水果", "ma1 ma5 gei2 jie3 jie5 shui2 guo3"),
        ("想想", "xiang2 xiang3"),
        # 一 and 不.
        ("一下", "yi2 xia4"),
        ("第一", "di4 yi1"),
        ("一九九八", "yi1 jiu2 jiu3 ba1"),
        ("一千一百", "yi4 qian1 yi4 bai3"),
        ("第一百", "di4 yi1 bai3"),
        ("逐一", "zhu2 yi1"),
        ("一审", "yi1 shen3"),
        # Tone sandhi ends at punctuation and letters, but not at spaces.
        ("你好，你好", "ni2 hao3 ni2 hao3"),
        ("你好 你 好", "ni2 hao3 ni2 hao3"),
        ("有，有", "you3 you3"),
        ("有有", "you2 you3"),
        ("有a有", "you3 a you3"),
    ],
)
def test_tones_equal_those_of_a_speaker(text, spoken):
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
    assert _tokens("看了解释") == "kan4 liao3 jie3 shi4"  # a word is 了解
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
    assert labeller.unknown_syllables(_utterance("慕𪻺"), "慕𪻺") == []  # read here, not by the corpus


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
        ("3楼", "san1 lou2", "三楼"),  # pairs only so
        ("50%", "bai3 fen1 zhi1 wu3 shi2", "百分之五十"),
        ("3楼", "3 lou2", "3楼"),  # pairs as it is
        ("23楼", "er4 san1 lou2", "23楼"),  # said in another way
        ("23楼", "\u200b", "二十三楼"),  # no pinyin
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
    ("options", "message"),
    [
        (
            dict(token_type="word"),
            "--token_type=word: expected one of syllable, toneless, initial_final, character, bpe",
        ),
        (dict(numbers="x"), "--numbers=x: expected one of keep, read"),
        (dict(token_type="bpe", bpe_vocab_size=0), "--bpe_vocab_size=0: expected at least 1"),
        (
            dict(bpe_vocab_size=900),
            r"--bpe_vocab_size=900 needs --token_type=bpe, but --token_type is syllable; leave --bpe_vocab",
        ),
        (
            dict(token_type="toneless", tone_sandhi=True),
            r"--tone_sandhi=True needs --token_type=syllable\|initial_final, but",
        ),
        (
            dict(token_type="character", user_dictionary="x"),
            r"--user_dictionary=x needs --token_type=syllable\|toneless\|i",
        ),
    ],
)
def test_config_refuses(options, message):
    with pytest.raises(errors.UserError, match=message):
        labelling.LabelConfig(**options)


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
