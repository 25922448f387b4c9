"""Compares reports on the same utterances, and tests whether the differences are significant.

The tests are a paired bootstrap and MAPSSWE (mapsswe.py). Marks are compared only by the bootstrap.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np

from estimator_asr.scoring import attribution, breakdown, error_rate, mapsswe, punctuation_scores, utterances
from estimator_asr.scoring.reports import formats, report, report_page
from tfrecord_builder import errors
from tfrecord_builder.storage import files

FILE = "comparison.json"
_TOKENS = utterances.TOKEN_ERROR_RATE
F1 = "commas_stops_questions_f1"  # the measure of texts with marks; higher is better, unlike in error rates
Scored = Sequence[utterances.ScoredUtterance]
Marked = Sequence[punctuation_scores.MarkedText]
Reports = Mapping[str, Mapping[str, Scored]]  # utterances, keyed by path, then measure; see report.read
Alignments = Sequence[Sequence[Sequence[attribution.AlignedPosition]]]  # indexed by report, then utterance


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Comparison of systems A and B on one measure; `a` and `b` are the paths of their reports."""

    measure: str
    a: str
    b: str
    rate_a: float  # an error rate, or an F1
    rate_b: float
    difference: float  # B's rate minus A's
    # 95 % interval for the difference, from a paired bootstrap over speakers and sentences; None if there is
    # only one speaker and one sentence.
    confidence_interval: Optional[tuple[float, float]]
    # Fraction of resamples in which B is better, plus half of the ties (Bisani and Ney, ICASSP 2004).
    probability_of_improvement: Optional[float]
    mapsswe: Optional[dict] = None  # fields of mapsswe.MatchedPairs; None for F1
    p_holm: float = 1.0  # p value from MAPSSWE, corrected for the number of comparisons (Holm, 1979)

    def __str__(self) -> str:
        text = f"{formats.format_name(self.measure)}: {self.b} {100 * self.rate_b:.2f} %, {self.a} "
        text += f"{100 * self.rate_a:.2f} %, difference {100 * self.difference:+.2f} points"
        if self.confidence_interval is not None:
            low, high = (100 * limit for limit in self.confidence_interval)
            text += f" (95 % interval {low:+.2f} to {high:+.2f}), probability of improvement "
            text += f"{self.probability_of_improvement:.3f}"
        return f"{text}; MAPSSWE p = {self.p_holm:.2g}" if self.mapsswe else text


def compare(reports: Reports) -> list[Comparison]:
    """Compares each pair of reports on each error rate that all reports have, and on marks if all have them.

    Raises errors.UserError if the reports have no measure in common, or contain different utterances.
    """
    path, first = next(iter(reports.items()))
    comparisons = []
    for measure in _list_common_measures(reports):
        for other_path, other in reports.items():
            _check_same(path, first[measure], other_path, other[measure])
        clusterings = breakdown.clusterings(first[measure])
        if list(first) == [report.MARKS]:  # a report on texts: their speakers are corpora, not people
            clusterings = clusterings[1:]
        pairs = itertools.combinations(reports.items(), 2)
        rows = [(a, old[measure], b, new[measure], clusterings) for (a, old), (b, new) in pairs]
        if measure == report.MARKS:
            comparisons += [_compare_marks(*row) for row in rows]
        else:
            comparisons += correct([_compare(measure, *row) for row in rows])
    return comparisons


def correct(compared: Sequence[Comparison]) -> list[Comparison]:
    """Sets p_holm: multiplies the lowest p value by the number of comparisons n, the next by n - 1, ..."""
    order = np.argsort([comparison.mapsswe["p"] for comparison in compared], kind="stable")
    corrected, highest = {}, 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, compared[index].mapsswe["p"] * (len(compared) - rank)))
        corrected[index] = dataclasses.replace(compared[index], p_holm=highest)
    return [corrected[index] for index in range(len(compared))]


def write(comparisons: Sequence[Comparison], reports: Reports, output_dir: str) -> None:
    """Writes comparison.json, and report.html, which shows how the errors in the reports differ."""
    content = json.dumps(list(map(dataclasses.asdict, comparisons)), indent=2, ensure_ascii=False)
    error_rates = [name for name in _list_common_measures(reports) if name != report.MARKS]
    page = render(error_rates[-1] if error_rates else "", list(map(str, comparisons)), reports)
    files.write_text(os.path.join(output_dir, report.REPORT_FILE), page)
    files.write_text(os.path.join(output_dir, FILE), content + "\n")


def render(measure: str, sentences: Sequence[str], reports: Reports) -> str:
    """Returns report.html, which shows the texts and utterances whose error counts in `measure` differ.

    `sentences` describe the results of the tests. If `measure` is "", the page shows only these.
    """
    data = _describe_differences(measure, reports) if measure else None
    return report_page.template("comparison.html").render(
        measure=measure, sentences=sentences, reports=list(reports), data=data
    )


def _describe_differences(measure: str, reports: Reports) -> dict:
    alignments = [_align(measures, measure) for measures in reports.values()]
    scored = next(iter(reports.values()))[measure]
    return {
        "separator": " " if measure == _TOKENS else "",
        "causes": [],  # not shown, because causes depend on the vocabularies, which are unknown here
        "reports": list(reports),
        "texts": count_texts(alignments),
        "utterances": _list_differing(scored, alignments),
    }


def count_texts(alignments: Alignments) -> list:
    """Returns [text, count in the references, errors by report] for texts whose error counts differ."""
    flat = [[position for row in rows for position in row if position.reference] for rows in alignments]
    wrong = [collections.Counter(place.reference.text for place in row if place.cause) for row in flat]
    counts = collections.Counter(place.reference.text for place in flat[0])
    table = [[text, count, [errors[text] for errors in wrong]] for text, count in counts.items()]
    differing = (row for row in table if len(set(row[2])) > 1)
    return sorted(differing, key=lambda row: (min(row[2]) - max(row[2]), row[0]))


def _align(measures: Mapping[str, Scored], measure: str) -> list:
    tokens = [(row.reference_tokens, row.hypothesis_tokens) for row in measures.get(_TOKENS, ())]
    aligned = []
    for row, syllables in itertools.zip_longest(measures[measure], tokens, fillvalue=((), ())):
        sides = map(attribution.pair, (row.reference_tokens, row.hypothesis_tokens), syllables)
        aligned.append(attribution.attribute(*sides, attribution.KnownVocabularies()))
    return aligned


def _list_differing(scored: Scored, alignments: Alignments) -> list:
    """Returns [id, speaker, alignments by report] for utterances whose error counts differ."""
    return [
        [row.utterance_id, row.speaker, list(map(report_page.align, alternatives))]
        for row, *alternatives in zip(scored, *alignments)
        if len({sum(place.cause is not None for place in positions) for positions in alternatives}) > 1
    ]


def _list_common_measures(reports: Reports) -> list[str]:
    names = (*utterances.MEASURES, report.MARKS)
    common = [name for name in names if all(name in measures for measures in reports.values())]
    if not common:
        (path, measures), *_ = reports.items()
        raise errors.UserError(
            f"evaluate: --compare: the reports have no error rate in common. {path} has "
            f"{' and '.join(measures)}; compare models of the same kind."
        )
    return common


def _check_same(path: str, first: Scored, other_path: str, other: Scored) -> None:
    keys, other_keys = ([(row.utterance_id, row.reference) for row in scored] for scored in (first, other))
    if keys != other_keys:
        differing = set(keys).symmetric_difference(other_keys) or {keys[0]}
        raise errors.UserError(
            f"evaluate: --compare: {other_path} and {path} have different utterances or references, for "
            f"example {min(differing)[0]}; evaluate both on the same data and split"
        )
    if not any(row.reference.strip() for row in first):
        raise errors.UserError(
            f"evaluate: --compare: all references in {path} are empty; evaluate data that have transcripts"
        )


def _compare(measure: str, a: str, old: Scored, b: str, new: Scored, clusterings) -> Comparison:
    lengths = np.array([row.edits.reference_length for row in old])
    errors_a, errors_b = (np.array([row.edits.errors for row in scored]) for scored in (old, new))
    resampled = error_rate.resample(errors_b - errors_a, lengths, clusterings)
    rate_a, rate_b = (float(errors.sum() / lengths.sum()) for errors in (errors_a, errors_b))
    tokens = ((x.reference_tokens, x.hypothesis_tokens, y.hypothesis_tokens) for x, y in zip(old, new))
    matched = mapsswe.compare_segments([mapsswe.Triple(*row) for row in tokens])._asdict()
    return Comparison(measure, a, b, rate_a, rate_b, rate_b - rate_a, *_summarise(resampled, -1), matched)


def _compare_marks(a: str, old: Marked, b: str, new: Marked, clusterings) -> Comparison:
    old_ratio, new_ratio = map(_count_f1, (old, new))
    resampled = error_rate.resample_difference(old_ratio, new_ratio, clusterings)
    rates = [float(doubled.sum() / max(lengths.sum(), 1)) for doubled, lengths in (old_ratio, new_ratio)]
    return Comparison(F1, a, b, *rates, rates[1] - rates[0], *_summarise(resampled, 1))


def _count_f1(texts: Marked) -> tuple[np.ndarray, np.ndarray]:
    counts = [punctuation_scores.score(text.reference, text.hypothesis) for text in texts]
    return punctuation_scores.count_f1(counts, punctuation_scores.COMMAS_STOPS_QUESTIONS)


def _summarise(resampled: Optional[error_rate.Resampled], better: int) -> tuple:
    """Returns the interval and the probability of improvement; `better` is the sign of an improvement."""
    if resampled is None:
        return None, None
    gains = better * resampled.rates
    return error_rate.interval(resampled), float(np.mean(gains > 0) + np.mean(gains == 0) / 2)
