"""Hotwords in the graph: parsing, and writing into transcripts."""

import re
import types

import graph_variables
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.hotwords import hotword_list, in_graph
from estimator_asr.decoding.search import phrases
from estimator_asr.experiment import config as config_lib
from tfrecord_builder.data import dataset_info, vocabulary

TOKENS = vocabulary.Vocabulary(["<unk>", "a", "hao3", "le4", "ni3", "shan1", "yue4", "4"])
TONELESS = vocabulary.Vocabulary(["<unk>", "hao", "ni", "A", "a", "gu"])
DEFAULT = hotword_list.DEFAULT_BOOST


def make_model(path, tokens=TOKENS, token_type="syllable", decoding="beam"):
    tokens.save(str(path / dataset_info.TOKENS_FILE))
    return types.SimpleNamespace(
        path=str(path),
        tokens=tokens,
        config=types.SimpleNamespace(token_type=token_type),
        decode=config_lib.DecodeConfig(decoding=decoding),
    )


def make_parser(model):
    """Returns a function that parses words to (characters, token ids, boost) of each hotword."""
    network = graph_variables.Network(lambda words: in_graph.parse(model, words), words=(tf.string, [None]))

    def parse(*words):
        characters, (ids, boosts) = network(np.array(words, object))
        assert characters.shape == ids.shape
        texts = [b"".join(row).decode() for row in characters]
        return list(zip(texts, [row[row >= 0].tolist() for row in ids], boosts.tolist()))

    return parse


@pytest.fixture(scope="module")
def parse(tmp_path_factory):
    return make_parser(make_model(tmp_path_factory.mktemp("am")))


def test_hotwords_without_pinyin_get_the_readings_of_their_hanzi_and_the_default_boost(parse):
    assert parse("你好", "乐") == [("你好", [4, 2], DEFAULT), ("乐", [3], DEFAULT)]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("乐 yue4", ("乐", [6], DEFAULT)),
        ("乐山 yue4 shan1 2.5", ("乐山", [6, 5], 2.5)),
        ("乐山 7", ("乐山", [3, 5], 7.0)),
        ("  乐山\t.5 ", ("乐山", [3, 5], 0.5)),
        ("A好", ("A好", [1, 2], DEFAULT)),
        ("A4 a 4", ("A4", [1, 7], DEFAULT)),  # the syllable of a digit, not a boost
        ("A4 a 4 5", ("A4", [1, 7], 5.0)),
        ("A4 5", ("A4", [1, 7], 5.0)),
        ("4 4", ("4", [7], DEFAULT)),
        ("44 4", ("44", [7, 7], 4.0)),
        ("乐天", ("乐天", [], DEFAULT)),  # the model has no tian1
        ("犇", ("犇", [], DEFAULT)),
        ("", ("", [], DEFAULT)),
    ],
)
def test_every_form_of_a_hotword_is_parsed(parse, word, expected):
    assert parse(word) == [expected]
    assert parse("你好好", word)[1] == expected  # the first word is longer


def test_an_empty_list_of_hotwords_is_parsed(parse):
    assert parse() == []


@pytest.mark.parametrize(
    "problem",
    [
        "乐山 yue4 2 has 2 characters and 1 syllables",
        "hello world has 5 characters and 1 syllables",
        "乐 yue4 shan1 da4 fo2 has 1 characters and 4 syllables",
    ],
)
def test_the_error_for_a_wrong_number_of_syllables_names_the_hotword(parse, problem):
    message = f"[E_HOTWORD_SYLLABLES: hotwords: {problem}, expected one syllable for each character; fix it]"
    for _ in range(10):  # operations that run in parallel must not fail first
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
            parse("你好", problem.partition(" has ")[0])


@pytest.mark.long
def test_hotwords_of_toneless_models_have_no_tones(tmp_path):
    parse = make_parser(make_model(tmp_path, TONELESS, "toneless"))
    assert [row[1] for row in parse("你好", "你 ni4", "你 ni")] == [[2, 1], [2], [2]]
    words = ("A股", "a股", "A股 A gu3", "A股 a gu3", "啊股", "啊股 a1 gu3", "啊股 A1 GU3", "啊股 a gu")
    assert [row[1] for row in parse(*words)] == [[3, 5]] * 4 + [[4, 5]] * 4
    assert parse("A股")[0][0] == "A股"


@pytest.mark.parametrize(
    ("token_type", "decoding", "expected"),
    [
        ("syllable", "beam", True),
        ("toneless", "beam", True),
        ("syllable", "greedy", False),
        ("initial_final", "beam", False),
        ("bpe", "beam", False),
    ],
)
def test_only_beam_search_over_syllables_supports_hotwords(tmp_path, token_type, decoding, expected):
    assert in_graph.is_possible(make_model(tmp_path, TOKENS, token_type, decoding)) == expected


def write(hotwords, transcripts, token_ids):
    """Runs in_graph.write; hotwords are (characters, (token ids, boosts)), transcripts as in Sequences."""

    def build():
        characters, favoured = hotwords
        words = in_graph.Hotwords(tf.constant(characters), phrases.Phrases(*map(tf.constant, favoured)))
        texts = sequences.Sequences(*map(tf.constant, transcripts))
        return in_graph.write(words, texts, tf.constant(token_ids))

    return graph_variables.run(build)


def test_homophones_are_replaced_by_the_hotword():
    """The tokens 1 2 are the hotword XY, and 2 3 are VW; if they overlap, the left one is written."""
    hotwords = [["X", "Y"], ["V", "W"]], ([[1, 2], [2, 3]], [9.0, 9.0])
    texts = [["a", "b", "c", "d", "e"], ["a", "b", "c", "", ""]]
    transcripts = texts, [5, 3], [-1.0, -2.0], [[0.1, 0.2, 0.3, 0.4, 0.5]] * 2
    replaced = write(hotwords, transcripts, [[1, 2, 3, 1, 2], [3, 2, 3, -1, -1]])
    assert [b"".join(row).decode() for row in replaced.strings] == ["XYcXY", "aVW"]
    np.testing.assert_allclose(replaced.probs[0], [1, 1, 0.3, 1, 1])
    assert replaced.scores.tolist() == [-1.0, -2.0]


@pytest.mark.parametrize(
    ("text", "probs", "boost", "expected"),
    [
        ("ab", [0.999, 0.999], 0.2, "ab"),  # log(0.998 / 0.002) = 6.2
        ("ab", [0.999, 0.999], 0.3, "XY"),
        ("Xb", [0.1, 0.9999], 3.2, "Xb"),  # X is right, and b has log(0.9999 / 0.0001) = 9.21
        ("Xb", [0.1, 0.9999], 3.3, "XY"),
        ("ab", [1.0, 1.0], 7.8, "ab"),
        ("ab", [1.0, 1.0], 7.9, "XY"),
        ("xy", [1.0, 1.0], 0.1, "XY"),  # letters that differ only in case
    ],
)
def test_characters_with_much_higher_log_odds_than_the_boost_are_kept(text, probs, boost, expected):
    transcripts = [["c", *text, "d"]], [4], [0.0], [[1.0, *probs, 0.5]]
    replaced = write(([["X", "Y"]], ([[5, 6]], [boost])), transcripts, [[4, 5, 6, 4]])
    assert b"".join(replaced.strings[0]).decode() == f"c{expected}d"
