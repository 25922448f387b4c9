"""Hotwords in the graph: parsing, and writing into transcripts."""

from __future__ import annotations

import types

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


class Parser:
    """The parser in a graph that is built once."""

    def __init__(self, model):
        with tf.Graph().as_default() as graph:
            self.words = tf.compat.v1.placeholder(tf.string, [None])
            self.parsed = in_graph.parse(model, self.words)
            initialize = tf.compat.v1.tables_initializer()
        self.session = tf.compat.v1.Session(graph=graph)
        self.session.run(initialize)

    def __call__(self, *words):
        """Returns (characters, token ids, boost) of each hotword."""
        characters, (ids, boosts) = self.session.run(self.parsed, {self.words: np.array(words, object)})
        assert characters.shape == ids.shape
        texts = ["".join(each.decode() for each in row) for row in characters]
        return [
            (text, row[row >= 0].tolist(), boost) for text, row, boost in zip(texts, ids, boosts.tolist())
        ]


@pytest.fixture(scope="module")
def parse(tmp_path_factory):
    return Parser(make_model(tmp_path_factory.mktemp("am")))


def test_hotwords_without_pinyin_get_that_of_their_hanzi_and_the_default_boost(parse):
    assert parse("你好", "乐") == [
        ("你好", [4, 2], DEFAULT),
        ("乐", [3], DEFAULT),
    ]


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
    assert parse("你好好", word)[1] == expected  # beside one with more characters


def test_an_empty_list_of_hotwords_is_parsed(parse):
    assert parse() == []


@pytest.mark.parametrize(
    "word, num_characters, num_syllables",
    [("乐山 yue4 2", 2, 1), ("hello world", 5, 1), ("乐 yue4 shan1 da4 fo2", 1, 4)],
)
def test_the_error_for_a_wrong_number_of_syllables_names_the_hotword(
    parse, word, num_characters, num_syllables
):
    problem = f"{word} has {num_characters} characters and {num_syllables} syllables"
    for _ in range(10):  # what is computed at the same time does not fail first
        with pytest.raises(tf.errors.InvalidArgumentError) as refused:
            parse("你好", word)
        expected = (
            f"[E_HOTWORD_SYLLABLES: hotwords: {problem}, expected one syllable for each character; fix it]"
        )
        assert expected in str(refused.value)


@pytest.mark.long
def test_hotwords_of_toneless_models_have_no_tones(tmp_path):
    parse = Parser(make_model(tmp_path, TONELESS, "toneless"))
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


def test_homophones_are_replaced_by_the_hotword():
    """The tokens 1 2 are the hotword XY, and 2 3 are VW; if they overlap, the left one is written."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        words = in_graph.Hotwords(
            tf.constant([["X", "Y"], ["V", "W"]]),
            phrases.Phrases(tf.constant([[1, 2], [2, 3]]), tf.constant([9.0, 9.0])),
        )
        written = sequences.Sequences(
            tf.constant([["a", "b", "c", "d", "e"], ["a", "b", "c", "", ""]]),
            tf.constant([5, 3]),
            tf.constant([-1.0, -2.0]),
            tf.constant([[0.1, 0.2, 0.3, 0.4, 0.5]] * 2),
        )
        token_ids = tf.constant([[1, 2, 3, 1, 2], [3, 2, 3, -1, -1]])
        found = session.run(in_graph.write(words, written, token_ids))
    assert [b"".join(row).decode() for row in found.strings] == ["XYcXY", "aVW"]
    np.testing.assert_allclose(found.probs[0], [1, 1, 0.3, 1, 1])
    assert found.scores.tolist() == [-1.0, -2.0]


@pytest.mark.parametrize(
    ("text", "probs", "boost", "expected"),
    [
        ("ab", [0.999, 0.999], 0.2, "ab"),  # log(0.998 / 0.002) = 6.2
        ("ab", [0.999, 0.999], 0.3, "XY"),
        ("Xb", [0.1, 0.9999], 3.2, "Xb"),  # X is the word's: log(0.9999 / 0.0001) = 9.21
        ("Xb", [0.1, 0.9999], 3.3, "XY"),
        ("ab", [1.0, 1.0], 7.8, "ab"),
        ("ab", [1.0, 1.0], 7.9, "XY"),
        ("xy", [1.0, 1.0], 0.1, "XY"),  # letters
    ],
)
def test_characters_with_much_higher_log_odds_than_the_boost_are_kept(text, probs, boost, expected):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        favoured = phrases.Phrases(tf.constant([[5, 6]]), tf.constant([boost]))
        words = in_graph.Hotwords(tf.constant([["X", "Y"]]), favoured)
        written = sequences.Sequences(
            tf.constant([["c", *text, "d"]]),
            tf.constant([4]),
            tf.constant([0.0]),
            tf.constant([[1.0, *probs, 0.5]]),
        )
        found = session.run(in_graph.write(words, written, tf.constant([[4, 5, 6, 4]])))
    assert b"".join(found.strings[0]).decode() == f"c{expected}d"
