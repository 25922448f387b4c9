import hotword_reference
import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.decoding.search import phrases


@pytest.fixture(scope="module")
def match():
    """A function from phrases and sequences of tokens to (phrase, offset) of each token."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs = [tf.compat.v1.placeholder(tf.int32, [None, None]) for _ in range(2)]
        num_tokens = tf.compat.v1.placeholder(tf.int32, [None])
        boosts = tf.zeros(tf.shape(inputs[0])[:1])
        found = phrases.match(phrases.Phrases(inputs[0], boosts), inputs[1], num_tokens)

        def run(rows, sequences, padding=-1):
            token_ids = hotword_reference.pad(sequences, padding)
            lengths = [len(each) for each in sequences]
            feeds = dict(zip([*inputs, num_tokens], [hotword_reference.pad(rows), token_ids, lengths]))
            got = np.stack(session.run(found, feeds), axis=-1)
            assert got.shape == (*token_ids.shape, 2)
            return [list(map(tuple, row[:length].tolist())) for row, length in zip(got, lengths)]

        yield run


NONE = (-1, 0)


@pytest.mark.parametrize(
    ("rows", "tokens", "expected"),
    [
        ([[1, 2]], [3, 1, 2, 1], [NONE, (0, 0), (0, 1), NONE]),
        ([[1], [1, 2]], [1, 1, 2], [(0, 0), (1, 0), (1, 1)]),  # the longest
        ([[2, 3], [1, 2]], [1, 2, 3], [(1, 0), (1, 1), NONE]),  # the leftmost
        ([[1, 1]], [1, 1, 1], [(0, 0), (0, 1), NONE]),
        ([[0, 1]], [1, 0, 1], [NONE, (0, 0), (0, 1)]),  # 0 is a token like any other
        ([[4], [4]], [4], [(0, 0)]),  # the first of two
        ([[], [5]], [5, 6], [(1, 0), NONE]),
        ([], [1, 2], [NONE, NONE]),
        ([[1, 2, 3]], [1, 2], [NONE, NONE]),
        ([[1]], [], []),
    ],
)
def test_phrases_match_as_computed_by_hand(match, rows, tokens, expected):
    assert match(rows, [tokens]) == [expected]


def test_random_matches_are_those_of_plain_python(match):
    rng = np.random.default_rng(5)
    for _ in range(100):
        rows = hotword_reference.random_phrases(rng, 12, 4)
        sequences = [rng.integers(1, 4, length).tolist() for length in rng.integers(0, 12, 5)]
        expected = [hotword_reference.match(rows, tokens) for tokens in sequences]
        assert match(rows, sequences) == expected
        assert match(rows, sequences, padding=1) == expected  # padding is not read
