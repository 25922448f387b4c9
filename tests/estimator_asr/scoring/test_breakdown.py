import jiwer
import numpy as np
import pytest

from estimator_asr.scoring import attribution, breakdown, utterances


def syllables(name, speaker, reference, hypothesis):
    return utterances.score(utterances.TOKEN_ERROR_RATE, name, speaker, reference, hypothesis)


SCORED = [
    syllables("u1", "fdu04", "shu4 zi4", "shu4 ci2"),
    syllables("u2", "fdu19", "yu3 yin1", "yu3 yin1"),
    syllables("u3", "S0150", "she4 ding4 er4 shi2 jiu3 du4", "she4 ci2 shi2 jiu3"),
    syllables("u4", "-", "zi4", "ci2"),
]


def test_characters_exclude_whitespace_and_keep_unk_as_one():
    assert utterances.split_characters("你 好A<unk>") == ("你", "好", "A", "<unk>")
    scored = utterances.score(utterances.CHARACTER_ERROR_RATE, "u", "s", "今天天气", "今天<unk>气")
    assert scored.edits == (1, 0, 0, 4)


def summarise(rates):
    return {name: (rate.errors, rate.reference_length) for name, rate in rates.items()}


def test_by_speaker():
    rates = summarise(breakdown.by_speaker(SCORED))
    assert rates == {"-": (1, 1), "S0150": (3, 6), "fdu04": (1, 2), "fdu19": (0, 2)}


def test_by_group_joins_speakers_whose_names_have_the_same_match():
    rates = breakdown.by_group(SCORED, "^[A-Za-z]+")
    assert summarise(rates) == {"S": (3, 6), "fdu": (1, 4), "other": (1, 1)}
    assert rates["fdu"].rate == pytest.approx(0.25)


def test_by_length_names_bins_shortest_first():
    others = [syllables("u5", "s", "", "a"), syllables("u6", "s", "a " * 40, "a " * 40)]
    rates = breakdown.by_length([*SCORED, *others])
    assert {name: rate.errors for name, rate in rates.items()} == {"0": 1, "1": 1, "2": 1, "5-6": 3, "33+": 0}
    assert list(rates)[0] == "0"


def test_worst_has_most_errors_first_and_no_correct_utterance():
    assert [utterance.utterance_id for utterance in breakdown.worst(SCORED, 10)] == ["u3", "u4", "u1"]
    assert len(breakdown.worst(SCORED, 2)) == 2


def test_confusions_most_frequent_first():
    assert breakdown.confusions(SCORED, 1) == [(("zi4", "ci2"), 2)]


def test_corpora_of_text_are_not_resampled_as_speakers():
    text = [
        syllables(f"u{i}", f"corpus{i % 2}", f"a b c {i}", f"a {'b' if i % 2 else 'x'} c {i}")
        for i in range(200)
    ]
    as_text = breakdown.overall(text, are_speakers_people=False)
    as_people = breakdown.overall(text, are_speakers_people=True)
    assert as_text.rate == as_people.rate == 0.125
    low, high = as_text.confidence_interval
    assert high - low < 0.05 < as_people.confidence_interval[1] - as_people.confidence_interval[0]


@pytest.mark.parametrize("unknown", ["", "corpus/"])
def test_utterances_of_unknown_speakers_count_as_separate_speakers(unknown):
    """If they shared a speaker, they would not be resampled, and the interval would be too narrow."""
    texts, widths = [(f"a b c {i}", f"a {'x' if i % 4 else 'b'} c {i}") for i in range(200)], []
    for speaker in (unknown, "{:03d}", "s"):
        rows = [syllables(f"u{i}", speaker.format(i), *pair) for i, pair in enumerate(texts)]
        low, high = breakdown.overall(rows).confidence_interval
        widths.append(high - low)
    found, expected, as_one = widths
    assert found == pytest.approx(expected, rel=0.1) and found > 1.5 * as_one


INITIALS, FINALS = ("b", "zh", "g", "m"), ("a", "ang", "ai", "e")


def score(*pairs, measure=utterances.TOKEN_ERROR_RATE):
    return [utterances.score(measure, f"u{i}", "s", *pair) for i, pair in enumerate(pairs)]


def count(measures) -> dict[str, tuple]:
    """Returns the total errors and reference lengths, keyed by name."""
    return {
        name: tuple(
            sum(getattr(each.edits, what) for each in scored) for what in ("errors", "reference_length")
        )
        for name, scored in breakdown.by_part(measures)
    }


def count_tokens(*pairs):
    return count({utterances.TOKEN_ERROR_RATE: score(*pairs)})


@pytest.mark.parametrize(
    ("hypothesis", "wrong"),
    [
        ("zhong1 guo2 ren2", []),
        ("zhong4 guo2 ren2", ["tone"]),
        ("zong1 guo2 ren2", ["toneless", "initial"]),
        ("zhang1 guo2 ren2", ["toneless", "final"]),
        ("zhang4 guo2 ren2", ["toneless", "final", "tone"]),
        ("guo2 ren2", ["toneless", "initial", "final", "tone"]),
    ],
)
def test_each_part_has_its_own_errors(hypothesis, wrong):
    found = count_tokens(("zhong1 guo2 ren2", hypothesis))
    assert found.pop("sentence_error_rate") == (1 if wrong else 0, 1)
    assert found == {
        f"{part}_error_rate": (1 if part in wrong else 0, 3)
        for part in ("toneless", "initial", "final", "tone")
    }


def test_letters_are_compared_whole_and_erhua_is_in_the_final():
    found = count_tokens(("a b dianr3", "a c dian3"))
    assert found["initial_error_rate"] == found["tone_error_rate"] == (1, 3)  # the letter is wrong
    assert found["final_error_rate"] == (2, 3)


def test_an_unknown_token_is_wrong_in_every_part():
    assert set(count_tokens(("ma1", "<unk>")).values()) == {(1, 1)}


def test_other_tokens_have_no_parts():
    assert count_tokens(("hello world", "hello")) == {"sentence_error_rate": (1, 1)}


def test_sentence_errors_are_counted_in_characters():
    tokens = score(("ni3 hao3", "ni3 hao3"), ("ma5", "ma5"))
    characters = score(("你好", "你好"), ("吗", "嘛"), measure=utterances.CHARACTER_ERROR_RATE)
    measures = {utterances.TOKEN_ERROR_RATE: tokens, utterances.CHARACTER_ERROR_RATE: characters}
    assert count(measures)["sentence_error_rate"] == (1, 2)


def test_counts_equal_those_of_jiwer():
    rng = np.random.default_rng(0)

    def draw():
        parts = (rng.choice(each, 12) for each in (INITIALS, FINALS, list("1234")))
        return list(zip(*parts))[: rng.integers(1, 12)]

    pairs = [(draw(), draw()) for _ in range(200)]
    found = count_tokens(*((" ".join("".join(each) for each in side) for side in pair) for pair in pairs))
    for place, name in enumerate(("initial", "final", "tone")):
        texts = [[" ".join(each[place] for each in side) for side in sides] for sides in zip(*pairs)]
        measured = jiwer.process_words(*texts)
        errors = measured.substitutions + measured.insertions + measured.deletions
        assert found[f"{name}_error_rate"][0] == errors


def attribute(reference, hypothesis):
    sides = [attribution.pair(text.split(), text.split()) for text in (reference, hypothesis)]
    return attribution.attribute(*sides, attribution.KnownVocabularies())


def test_right_and_wrong_parts_are_counted():
    found = breakdown.count_matrices([attribute("ma1 ma3 you3", "ma1 ba3 you4"), attribute("ma1", "ma1")])
    assert found["tones"].counts == {("1", "1"): 2, ("3", "3"): 1, ("3", "4"): 1}
    assert found["initials"].counts == {("m", "m"): 2, ("m", "b"): 1, ("", ""): 1}
    assert found["finals"].counts == {("a", "a"): 3, ("iou", "iou"): 1}


def test_confused_names_and_names_that_are_always_right_are_in_their_usual_order():
    found = breakdown.count_matrices([attribute("you3 ma1 dianr3", "you3 ba1 dianr3")])
    assert (found["initials"].names, found["initials"].right) == (["b", "m"], ["", "d"])
    assert (found["finals"].names, found["finals"].right) == ([], ["a", "iou", "ianr"])
    assert found["initials"].totals == {"": 1, "m": 1, "d": 1}


def test_tokens_that_are_not_syllables_are_not_in_the_matrices():
    assert breakdown.count_matrices([attribute("A b", "A c"), attribute("ma1", "")]) == {}
