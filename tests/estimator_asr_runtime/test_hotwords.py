import dataclasses

import hotword_reference
import numpy as np
import pytest
import runtime_models

from estimator_asr_runtime import beam_search, errors, hotwords, writing

FORM = "write it as WORD pin1 yin1 or, to set a boost, WORD pin1 yin1 6, with one syllable per character"


def make_model(**changes):
    return runtime_models.make_model(runtime_models.make_log_probs([1, 2]), **changes)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("你好 ni3 hao3", ("你好", (1, 2), 4.0)),
        ("你好 NI3 hao3 2.5", ("你好", (1, 2), 2.5)),
        ("好 hao3 .5", ("好", (2,), 0.5)),
    ],
)
def test_a_syllable_for_each_character(line, expected):
    (found,) = hotwords.parse(make_model(), [line])
    assert found == expected


def test_a_syllable_that_the_model_lacks_disables_a_hotword():
    assert hotwords.parse(make_model(), ["你们 ni3 men5", "A4 a 4"]) == []


@pytest.mark.parametrize(("token_type", "letter"), [("syllable", "a"), ("toneless", "A")])
def test_letters_are_lowercase_in_toned_and_capitals_in_toneless_models(token_type, letter):
    model = dataclasses.replace(make_model(token_type=token_type), tokens=("<unk>", letter, "gu3", "gu"))
    for line in ("A股 a gu3", "a股 A gu3"):
        (found,) = hotwords.parse(model, [line])
        assert model.tokens[found.ids[0]] == letter


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("你好", "2 characters and 0 syllables"),
        ("你好 4", "2 characters and 0 syllables"),
        ("你好 ni3", "2 characters and 1 syllables"),
        ("你好 ni3 hao3 -2", "2 characters and 3 syllables"),
        (" ", "0 characters and 0 syllables"),
    ],
)
def test_hotwords_in_another_format_are_refused(line, counts):
    with pytest.raises(errors.UserError) as raised:
        hotwords.parse(make_model(), [line])
    assert str(raised.value) == f"hotword {line!r} has {counts}; {FORM}"


@pytest.mark.parametrize(("boost", "got"), [("1000001", "1e+06"), ("9" * 400, "inf")])
def test_a_boost_that_is_too_high_is_refused(boost, got):
    with pytest.raises(errors.UserError) as raised:
        hotwords.parse(make_model(), [f"你好 ni3 hao3 {boost}"])
    assert str(raised.value).endswith(f" is {got}, expected at most 1000000; lower it")


def test_models_without_support_for_hotwords():
    with pytest.raises(errors.UserError, match="^m does not support hotwords, because it is not a syllable"):
        hotwords.parse(make_model(token_type="character"), ["好 hao3"])
    greedy = {"decoding": "greedy"}
    with pytest.raises(errors.UserError, match="is not a syllable model with beam search"):
        hotwords.parse(make_model(acoustic=greedy), ["好 hao3"])
    assert hotwords.parse(make_model(acoustic=greedy), []) == []


def make_hotwords(rows, boosts):
    pairs = zip(rows, boosts)
    return [hotwords.Hotword("x" * len(ids), tuple(ids), np.float32(boost)) for ids, boost in pairs if ids]


def score(scorer, tokens):
    """Returns the score that each token adds, and the score that the end adds."""
    states, added = np.int32([scorer.start()]), []
    for token in tokens:
        scores, after = scorer.extend(states, np.array([token]))
        states = after[:, 0]
        added.append(float(scores[0, 0]))
    return added, float(scorer.finish(states)[0])


@pytest.mark.parametrize(
    ("rows", "boosts", "tokens", "added", "end"),
    [
        ([[1, 2, 3]], [60], [1, 2, 3, 4], [2, 2, 56, 0], 0),
        ([[1, 2, 3]], [60], [1, 2, 4, 1], [2, 2, -4, 2], -2),
        ([[1, 2], [2, 3]], [40, 100], [1, 2, 3], [2, 38 + 5, 95], 0),
        ([[1], [1]], [3, 2], [1, 1], [3, 3], 0),
        ([], [], [4, 5], [0, 0], 0),
    ],
)
def test_scores_match_values_computed_by_hand(rows, boosts, tokens, added, end):
    got, finish = score(hotwords.HotwordScorer(make_hotwords(rows, boosts)), tokens)
    np.testing.assert_allclose([*got, finish], [*added, end], atol=1e-5)


def test_a_hypothesis_gets_the_boosts_of_all_occurrences():
    rng = np.random.default_rng(6)
    for _ in range(200):
        rows = hotword_reference.random_phrases(rng, 15, 5)
        boosts, tokens = rng.uniform(0, 9, len(rows)), rng.integers(0, 6, 14)
        added, end = score(hotwords.HotwordScorer(make_hotwords(rows, boosts)), tokens)
        expected = hotword_reference.total_boost(rows, boosts, tokens)
        assert sum(added) + end == pytest.approx(expected, abs=1e-4)


@pytest.mark.long
def test_the_search_equals_that_of_tensorflow():
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.decoding.hotwords import boosting
    from estimator_asr.decoding.search import phrases, prefix_beam_search
    from estimator_asr.experiment import config

    rng = np.random.default_rng(8)
    rows, boosts = [[1, 2, 3], [2, 3], [3, 3, 1], [1]], np.float32([6, 3, 4, 0.5])
    logits = rng.normal(size=[60, 7]) * 2
    log_probs = np.float32(logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True)))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        favoured = phrases.Phrases(tf.constant(hotword_reference.pad(rows)), tf.constant(boosts))
        args = tf.constant(log_probs[None]), tf.constant([60]), [boosting.HotwordScorer(favoured, 6)]
        decode = config.DecodeConfig(**{**runtime_models.DECODE, "beam_width": 8})
        expected = session.run(prefix_beam_search.prefix_beam_search(decode, *args))
    scorer = hotwords.HotwordScorer(make_hotwords(rows, boosts))
    found = beam_search.search(runtime_models.make_decode(beam_width=8), log_probs, [scorer])
    counts = expected.num_tokens[0]
    assert [each.ids for each in found] == [tuple(ids[:n]) for ids, n in zip(expected.ids[0], counts)]
    np.testing.assert_allclose([each.score for each in found], expected.scores[0], atol=1e-4)


def test_hotword_characters_replace_others_unless_those_are_certain():
    words = [hotwords.Hotword("尼好", (1, 2), np.float32(2.0))]
    for prob, expected in ((0.9996, "尼好"), (0.9998, "你好")):  # log odds of 7.8 and 8.5
        written = writing.Written(("你", "好"), np.float32(0), np.float32([prob, 0.5]))
        found = hotwords.write(words, written, (1, 2))
        assert "".join(found.strings) == expected
        assert (found.probs.tolist() == [1.0, 1.0]) == (expected == "尼好")


def test_written_hotwords_equal_those_of_the_export():
    tf = pytest.importorskip("tensorflow")

    from estimator_asr.decoding import sequences
    from estimator_asr.decoding.hotwords import in_graph
    from estimator_asr.decoding.search import phrases

    rng = np.random.default_rng(9)
    rows = [each for each in hotword_reference.random_phrases(rng, 30, 4) if each]
    texts = ["".join(rng.choice(list("甲乙丙Ab"), len(each))) for each in rows]
    boosts = np.float32(rng.uniform(0, 4, len(rows)))
    ids = np.int32(rng.integers(1, 4, [20, 9]))
    strings = rng.choice(list("甲乙丙aB"), ids.shape)
    probs = np.float32(1 - 10 ** rng.uniform(-6, 0, ids.shape))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        length = max(map(len, texts))
        table = tf.constant([[*text, *[""] * (length - len(text))] for text in texts])
        favoured = phrases.Phrases(tf.constant(hotword_reference.pad(rows)), tf.constant(boosts))
        scores, counts = tf.zeros([20]), tf.fill([20], 9)
        before = sequences.Sequences(tf.constant(strings.astype(object)), counts, scores, tf.constant(probs))
        after = in_graph.write(in_graph.Hotwords(table, favoured), before, tf.constant(ids))
        expected = session.run(after)
    words = [hotwords.Hotword(*each) for each in zip(texts, map(tuple, rows), boosts)]
    for i in range(20):
        written = writing.Written(tuple(strings[i].tolist()), np.float32(0), probs[i])
        found = hotwords.write(words, written, ids[i].tolist())
        assert list(found.strings) == [each.decode() for each in expected.strings[i]]
        np.testing.assert_array_equal(found.probs, expected.probs[i])
