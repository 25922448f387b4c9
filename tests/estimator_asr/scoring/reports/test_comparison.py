"""Comparison of reports: counts by hand, coverage of the interval, Holm's correction, every message."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from estimator_asr.scoring import attribution, utterances
from estimator_asr.scoring.reports import comparison, report, scored_split
from tfrecord_builder import errors


def read(paths):
    return {path: report.read(path) for path in paths}


def make_report(path, hypotheses, references=("a b c d",) * 40, measure=utterances.TOKEN_ERROR_RATE) -> str:
    scored = [
        utterances.score(
            measure, f"u{i:02d}", f"s{i // 10}", f"{reference} t{i}", f"{hypothesis} t{i}".strip()
        )
        for i, (reference, hypothesis) in enumerate(zip(references, hypotheses))
    ]
    report.write(scored_split.ScoredSplit({"data": "d", "split": "dev"}, {measure: scored}), str(path))
    return str(path)


GOOD, BAD = ["a b c d"] * 40, ["x b c d"] * 40
MIXED = [("x b c d", "a b c d")[i % 2] for i in range(40)]


def test_comparison_has_rates_difference_and_tests(tmp_path):
    bad, good = (make_report(tmp_path / name, each) for name, each in (("bad", BAD), ("good", MIXED)))
    (found,) = comparison.compare(read([bad, good]))
    assert (found.a, found.b, found.measure) == (bad, good, "token_error_rate")
    assert (found.rate_a, found.rate_b) == (40 / 200, 20 / 200)
    assert found.difference == pytest.approx(-0.1)
    low, high = found.confidence_interval
    assert -0.2 < low < -0.1 < high < 0
    assert found.probability_of_improvement > 0.99  # all right utterances may be missing in a resample
    assert found.mapsswe["num_segments"] == 40 and found.mapsswe["mean"] == 0.5
    assert found.mapsswe["z"] == pytest.approx(0.5 / (np.std([0, 1] * 20, ddof=1) / 40**0.5))
    assert str(found).startswith(
        f"token error rate: {good} 10.00 %, {bad} 20.00 %, difference -10.00 points (95 %"
    )


def test_a_system_does_not_improve_on_itself(tmp_path):
    reports = [make_report(tmp_path / name, MIXED) for name in "ab"]
    (found,) = comparison.compare(read(reports))
    assert found.difference == 0 and found.confidence_interval == (0.0, 0.0)
    assert found.probability_of_improvement == 0.5 and found.mapsswe["p"] == 1.0


@pytest.mark.long
def test_the_interval_covers_the_true_difference():
    """250 sentences by 10 speakers with different rates: an interval over utterances would be too narrow."""
    rng, covered, trials = np.random.default_rng(0), 0, 200
    for _ in range(trials):
        speakers = np.repeat(np.arange(10), 25)
        effects = rng.normal(0, 0.05, 10)[speakers]
        lengths = np.full(250, 20)
        difference = rng.binomial(20, 0.2 + np.clip(effects, -0.15, 0.15)) - rng.binomial(20, 0.2, 250)
        resampled = comparison.error_rate.resample(difference, lengths, [speakers, np.arange(250)])
        low, high = comparison.error_rate.interval(resampled)
        covered += low <= 0 <= high
    assert covered / trials >= 0.9


def test_p_of_three_systems_is_corrected(tmp_path):
    reports = [make_report(tmp_path / name, each) for name, each in (("a", BAD), ("b", MIXED), ("c", GOOD))]
    found = comparison.compare(read(reports))
    assert [(each.a, each.b) for each in found] == [
        (reports[0], reports[1]),
        (reports[0], reports[2]),
        (reports[1], reports[2]),
    ]
    assert all(each.p_holm >= each.mapsswe["p"] for each in found)


def test_holms_correction():
    base = comparison.Comparison("m", "a", "b", 0, 0, 0, None, None, {})
    given = [dataclasses.replace(base, mapsswe={"p": p}) for p in (0.01, 0.04, 0.03, 0.005)]
    # R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
    assert [each.p_holm for each in comparison.correct(given)] == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_comparison_json_has_all_fields(tmp_path):
    reports = [make_report(tmp_path / name, each) for name, each in (("a", BAD), ("b", GOOD))]
    found = comparison.compare(read(reports))
    comparison.write(found, read(reports), str(tmp_path))
    (saved,) = json.loads((tmp_path / "comparison.json").read_text())
    assert saved == json.loads(json.dumps(dataclasses.asdict(found[0])))


def test_reports_of_different_utterances_are_refused(tmp_path):
    one = make_report(tmp_path / "a", BAD)
    other = make_report(tmp_path / "b", BAD[:39])
    with pytest.raises(errors.UserError) as refused:
        comparison.compare(read([one, other]))
    assert str(refused.value) == (
        f"evaluate: --compare: {other} and {one} have different utterances or references, for example u39; "
        "evaluate both on the same data and split"
    )


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"utterance_id": "u"}', '{"scored": {"token_error_rate": []}}']
)
def test_an_invalid_report_is_refused(tmp_path, content):
    (tmp_path / "hypotheses.jsonl").write_text(content)
    with pytest.raises(errors.UserError, match=r"^\S+: hypotheses.jsonl cannot be read \(.*evaluate again"):
        comparison.compare(read([str(tmp_path), str(tmp_path)]))


def test_a_missing_report_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="cannot be read .FileNotFoundError"):
        comparison.compare(read([str(tmp_path / "none"), str(tmp_path)]))


def test_reports_without_references_are_refused(tmp_path):
    reports = []
    for name in "ab":
        scored = [utterances.score(utterances.TOKEN_ERROR_RATE, "u", "s", "", "x")]
        report.write(
            scored_split.ScoredSplit({}, {utterances.TOKEN_ERROR_RATE: scored}), str(tmp_path / name)
        )
        reports.append(str(tmp_path / name))
    with pytest.raises(errors.UserError, match="all references in .* are empty; evaluate data that have "):
        comparison.compare(read(reports))


def test_reports_without_a_common_measure_are_refused(tmp_path):
    measures = (utterances.TOKEN_ERROR_RATE, utterances.CHARACTER_ERROR_RATE)
    reports = [make_report(tmp_path / name, GOOD, measure=name) for name in measures]
    with pytest.raises(errors.UserError, match="the reports have no error rate in common\\. \\S+ has token"):
        comparison.compare(read(reports))


def test_line_separators_within_texts_are_read_back(tmp_path):
    texts = ["a\u2028b\x85 c d"] * 40
    path = make_report(tmp_path, texts, texts)
    (rows,) = report.read(path).values()
    assert len(rows) == 40 and rows[0].reference == "a\u2028b\x85 c d t0"


def corrupt(tokens, rate, rng) -> list[str]:
    """Substitutes three of five errors, deletes one, inserts one."""
    made = []
    for token in tokens:
        draw = rng.random()
        if draw < 0.6 * rate:
            made += [f"w{rng.integers(1000)}"]
        elif draw >= 0.8 * rate:
            made += [token, f"w{rng.integers(1000)}"] if draw < rate else [token]
    return made


def make_triples(seed) -> list[comparison.Triple]:
    rng = np.random.default_rng(seed)
    triples = []
    for _ in range(60):
        reference = [f"w{number}" for number in rng.integers(0, 1000, rng.integers(3, 20))]
        triples.append(
            comparison.Triple(reference, corrupt(reference, 0.15, rng), corrupt(reference, 0.25, rng))
        )
    return triples


# What `sc_stats -p -t mapsswe -v` prints for the same sentences, aligned by sclite.
@pytest.mark.parametrize(
    ("seed", "segments", "mean", "z"),
    [(0, 133, -0.489, -4.373), (1, 116, -0.681, -5.387), (2, 131, -0.603, -5.574), (3, 119, -0.866, -7.648)],
)
def test_mapsswe_equals_that_of_sc_stats(seed, segments, mean, z):
    found = comparison.compare_segments(make_triples(seed))
    assert (found.num_segments, round(found.mean, 3), round(found.z, 3)) == (segments, mean, z)
    assert found.p == pytest.approx(2 * (1 - 0.5 * (1 + math.erf(abs(found.z) / math.sqrt(2)))), abs=1e-12)


def differences(reference, a, b) -> list[int]:
    return list(comparison._segment_differences(comparison.Triple(*map(str.split, (reference, a, b)))))


@pytest.mark.parametrize(
    ("reference", "a", "b", "expected"),
    [
        ("a b c", "a b c", "a b c", []),
        ("a b c", "x b c", "a b c", [1]),
        ("a b c d", "x b c y", "a b c d", [1, 1]),  # two right tokens between the errors
        ("a b c", "x b y", "a b c", [2]),  # one right token does not end a segment
        ("a b c d", "x b c d", "a b c y", [1, -1]),
        ("a b c d", "a b x c d", "a b c d", [1]),  # inserted between right tokens
        ("a b", "a b x", "a b", [1]),  # inserted at the end
        ("a b", "a b", "a b x y", [-2]),
        ("a b c", "", "a b c", [3]),
        ("a b c d", "a x c d", "a y c d", [0]),  # both wrong
        ("", "x", "", [1]),
    ],
)
def test_differences_of_segments(reference, a, b, expected):
    assert differences(reference, a, b) == expected


def test_p_is_1_for_equal_systems():
    triple = comparison.Triple(["a"], ["x"], ["x"])
    assert comparison.compare_segments([triple] * 3) == (3, 0.0, 0.0, 1.0)
    assert comparison.compare_segments([]) == (0, 0.0, 0.0, 1.0)


def align(reference, hypothesis):
    sides = [attribution.pair(text, []) for text in (reference, hypothesis)]
    return attribution.attribute(*sides, attribution.KnownVocabularies())


def test_texts_whose_errors_differ_are_listed():
    a = [align("他在他里", "她在她里"), align("我", "你")]
    b = [align("他在他里", "他在她理"), align("我", "你")]
    assert comparison.count_texts([a, b]) == [["他", 2, [2, 1]], ["里", 1, [0, 1]]]


def test_only_utterances_with_different_numbers_of_errors_are_shown():
    def score(name, hypothesis):
        return utterances.score(utterances.CHARACTER_ERROR_RATE, name, "s", "他在", hypothesis)

    texts = {"A": ("她在", "她在", "他在"), "B": ("他在", "他再", "他在")}
    reports = {
        name: {utterances.CHARACTER_ERROR_RATE: [score(f"u{i}", text) for i, text in enumerate(each, 1)]}
        for name, each in texts.items()
    }
    page = comparison.render(utterances.CHARACTER_ERROR_RATE, ["a sentence & <more>"], reports)
    assert '"utterances":[["u1","s",[[{"r":"他","h":"她"' in page and '"u2"' not in page
    assert '"u3"' not in page
    assert "<li>a sentence &amp; &lt;more&gt;</li>" in page
