"""Tests the comparison of reports: counts by hand, the interval's coverage, Holm's correction, errors."""

import dataclasses
import itertools
import json
import shutil

import numpy as np
import pytest

from estimator_asr.scoring import attribution, punctuation_scores, utterances
from estimator_asr.scoring.reports import comparison, punctuation_report, report, scored_split
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
    assert found.probability_of_improvement > 0.99  # below 1, as a resample may lack all improved utterances
    assert found.mapsswe["num_segments"] == 40 and found.mapsswe["mean"] == 0.5
    assert found.mapsswe["z"] == pytest.approx(0.5 / (np.std([0, 1] * 20, ddof=1) / 40**0.5))
    said = f"token error rate: {good} 10.00 %, {bad} 20.00 %, difference -10.00 points (95 %"
    assert str(found).startswith(said)


def test_a_system_does_not_improve_on_itself(tmp_path):
    reports = [make_report(tmp_path / name, MIXED) for name in "ab"]
    (found,) = comparison.compare(read(reports))
    assert found.difference == 0 and found.confidence_interval == (0.0, 0.0)
    assert found.probability_of_improvement == 0.5 and found.mapsswe["p"] == 1.0


@pytest.mark.long
def test_the_interval_covers_the_true_difference():
    """The 10 speakers have different error rates, so resampling single utterances would be too narrow."""
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
    assert [(each.a, each.b) for each in found] == list(itertools.combinations(reports, 2))
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


def refuse_different(one, other, example):
    with pytest.raises(errors.UserError) as refused:
        comparison.compare(read([one, other]))
    assert str(refused.value) == (
        f"evaluate: --compare: {other} and {one} have different utterances or references, for example "
        f"{example}; evaluate both on the same data and split"
    )


def test_reports_of_different_utterances_are_refused(tmp_path):
    refuse_different(make_report(tmp_path / "a", BAD), make_report(tmp_path / "b", BAD[:39]), "u39")


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", '{"utterance_id": "u"}', '{"scored": {"token_error_rate": []}}']
)
def test_a_missing_or_invalid_report_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "hypotheses.jsonl").write_text(content)
    reason = "FileNotFoundError" if content is None else ""
    said = rf": hypotheses.jsonl cannot be read \({reason}.*evaluate again"
    with pytest.raises(errors.UserError, match=rf"^\S+{said}"):
        report.read(str(tmp_path))


def test_reports_without_references_are_refused(tmp_path):
    scored = [utterances.score(utterances.TOKEN_ERROR_RATE, "u", "s", "", "x")]
    report.write(scored_split.ScoredSplit({}, {utterances.TOKEN_ERROR_RATE: scored}), str(tmp_path / "a"))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(errors.UserError, match="all references in .* are empty; evaluate data that have "):
        comparison.compare(read([str(tmp_path / "a"), str(tmp_path / "b")]))


def test_reports_without_a_common_measure_are_refused(tmp_path):
    measures = (utterances.TOKEN_ERROR_RATE, utterances.CHARACTER_ERROR_RATE)
    reports = [make_report(tmp_path / name, GOOD, measure=name) for name in measures]
    with pytest.raises(errors.UserError, match="the reports have no error rate in common\\. \\S+ has token"):
        comparison.compare(read(reports))


def make_marked_report(path, hypotheses, references=("你好，吗。",) * 40) -> str:
    """Writes a punctuation model's report on texts from two corpora."""
    texts = [
        punctuation_scores.MarkedText(f"u{i:02d}", f"c{i % 2}", *(f"{i:02d}{text}" for text in pair))
        for i, pair in enumerate(zip(references, hypotheses))
    ]
    path.mkdir()
    punctuation_report.write(texts, {"model": "PM"}, str(path))
    return str(path)


RIGHT, HALF, NONE = "你好，吗。", "你好吗。", "你好？吗！"


def test_the_f1_of_marks_is_compared_over_texts(tmp_path):
    """A finds half of the marks in half of the texts, and B finds all marks."""
    a = make_marked_report(tmp_path / "a", [HALF, RIGHT] * 20)
    b = make_marked_report(tmp_path / "b", [RIGHT] * 40)
    (marks,) = comparison.compare(read([a, b]))
    assert (marks.measure, marks.a, marks.b, marks.mapsswe) == ("commas_stops_questions_f1", a, b, None)
    assert (marks.rate_a, marks.rate_b) == (2 * 60 / (60 + 80), 1.0)
    assert marks.difference == marks.rate_b - marks.rate_a
    low, high = marks.confidence_interval
    assert 0.05 < low < marks.difference < high < 0.25 and marks.probability_of_improvement == 1.0
    assert str(marks) == (
        f"commas stops questions f1: {b} 100.00 %, {a} 85.71 %, difference +14.29 points (95 % interval "
        f"{100 * low:+.2f} to {100 * high:+.2f}), probability of improvement 1.000"
    )
    comparison.write([marks], read([a, b]), str(tmp_path))
    page = (tmp_path / "report.html").read_text("utf-8")
    assert f"<li>{marks}</li>" in page and "<h2>" not in page
    (saved,) = json.loads((tmp_path / "comparison.json").read_text())
    assert saved == json.loads(json.dumps(dataclasses.asdict(marks)))


def test_equal_marks_do_not_differ_and_texts_without_them_have_no_interval(tmp_path):
    reports = [make_marked_report(tmp_path / name, [HALF, NONE] * 20) for name in "ab"]
    (marks,) = comparison.compare(read(reports))
    assert (marks.difference, marks.confidence_interval, marks.probability_of_improvement) == (0, (0, 0), 0.5)
    rare = [make_marked_report(tmp_path / name, ["好！"] * 3, ["好！"] * 3) for name in "cd"]
    (marks,) = comparison.compare(read(rare))
    assert (marks.rate_a, marks.rate_b, marks.confidence_interval) == (0, 0, None)


def test_marked_texts_that_differ_are_refused(tmp_path):
    a = make_marked_report(tmp_path / "a", [RIGHT] * 40)
    b = make_marked_report(tmp_path / "b", [RIGHT] * 40, [HALF, *[RIGHT] * 39])
    refuse_different(a, b, "u00")
    speech = make_report(tmp_path / "c", BAD)
    with pytest.raises(errors.UserError, match="the reports have no error rate in common\\. \\S+ has marks;"):
        comparison.compare(read([a, speech]))


def test_marks_of_recognised_speech_are_compared_beside_the_error_rates(tmp_path):
    paths = []
    for name, hypothesis in (("a", NONE), ("b", HALF)):
        scored = [
            utterances.score(utterances.CHARACTER_ERROR_RATE, f"u{i}", f"s{i % 4}", f"好{i}", "好")
            for i in range(8)
        ]
        texts = [
            punctuation_scores.MarkedText(f"u{i}", f"s{i % 4}", f"{i}{RIGHT}", f"{i}{hypothesis}")
            for i in range(6)
        ]
        measures = {utterances.CHARACTER_ERROR_RATE: scored}
        report.write(
            scored_split.ScoredSplit({}, measures, marked=texts, written_forms=scored), str(tmp_path / name)
        )
        paths.append(str(tmp_path / name))
    rate, marks = comparison.compare(read(paths))
    assert (rate.measure, rate.difference, marks.measure) == ("character_error_rate", 0, comparison.F1)
    assert (marks.rate_a, marks.rate_b) == (0, 2 / 3)  # a comma is missing everywhere


def test_line_separators_within_texts_are_read_back(tmp_path):
    texts = ["a\u2028b\x85 c d"] * 40
    path = make_report(tmp_path, texts, texts)
    (rows,) = report.read(path).values()
    assert len(rows) == 40 and rows[0].reference == "a\u2028b\x85 c d t0"


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
