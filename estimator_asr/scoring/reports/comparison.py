"""Compares reports on the same utterances: which system has fewer errors, and is the difference significant?

The tests are a paired bootstrap and MAPSSWE, which compares the errors in segments that are independent of
each other: Gillick and Cox, "Some statistical issues in the comparison of speech recognition algorithms",
ICASSP 1989, section 4. The segments and the statistic are the same as in sc_stats from NIST's SCTK 2.4.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.scoring import attribution, breakdown, edit_distance, error_rate, utterances
from estimator_asr.scoring.reports import formats, report, report_page
from tfrecord_builder import errors
from tfrecord_builder.storage import files

FILE = "comparison.json"
_NUM_GOOD = 2  # a segment ends after this many tokens that both systems got right (sc_stats: min_num_good)
Scored = Sequence[utterances.ScoredUtterance]
Reports = Mapping[str, Mapping[str, Scored]]  # utterances, keyed by path, then measure; see report.read
Alignments = Sequence[Sequence[Sequence[attribution.AlignedPosition]]]  # indexed by report, then utterance


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Comparison of systems A and B on one measure; `a` and `b` are the paths of their reports."""

    measure: str
    a: str
    b: str
    rate_a: float
    rate_b: float
    difference: float  # B's error rate minus A's
    # 95 % interval for the difference, from a paired bootstrap over speakers and sentences; None if there is
    # only one speaker and one sentence.
    confidence_interval: Optional[tuple[float, float]]
    # Fraction of resamples in which B has fewer errors, plus half the fraction in which both have equally
    # many (Bisani and Ney, ICASSP 2004).
    probability_of_improvement: Optional[float]
    mapsswe: dict  # fields of MatchedPairs
    p_holm: float = 1.0  # p value from MAPSSWE, corrected for the number of comparisons (Holm, 1979)

    def __str__(self) -> str:
        text = f"{formats.format_name(self.measure)}: {self.b} {100 * self.rate_b:.2f} %, {self.a} "
        text += f"{100 * self.rate_a:.2f} %, difference {100 * self.difference:+.2f} points"
        if self.confidence_interval is not None:
            low, high = (100 * limit for limit in self.confidence_interval)
            text += f" (95 % interval {low:+.2f} to {high:+.2f}), probability of improvement "
            text += f"{self.probability_of_improvement:.3f}"
        return f"{text}; MAPSSWE p = {self.p_holm:.2g}"


def compare(reports: Reports) -> list[Comparison]:
    """Compares each pair of reports on each measure that all reports have.

    Raises errors.UserError if the reports have no measure in common, or contain different utterances.
    """
    path, first = next(iter(reports.items()))
    comparisons = []
    for measure in _list_common_measures(reports):
        for other_path, other in reports.items():
            _check_same(path, first[measure], other_path, other[measure])
        pairs = itertools.combinations(reports.items(), 2)
        compared = [_compare(measure, a, old[measure], b, new[measure]) for (a, old), (b, new) in pairs]
        comparisons += correct(compared)
    return comparisons


def correct(compared: Sequence[Comparison]) -> list[Comparison]:
    """Sets p_holm: multiplies the lowest p by the number of comparisons, the next by one less, and so on."""
    order = np.argsort([comparison.mapsswe["p"] for comparison in compared], kind="stable")
    corrected, highest = {}, 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, compared[index].mapsswe["p"] * (len(compared) - rank)))
        corrected[index] = dataclasses.replace(compared[index], p_holm=highest)
    return [corrected[index] for index in range(len(compared))]


def write(comparisons: Sequence[Comparison], reports: Reports, output_dir: str) -> None:
    """Writes comparison.json, and report.html, which shows how the errors in the reports differ."""
    content = json.dumps(list(map(dataclasses.asdict, comparisons)), indent=2, ensure_ascii=False)
    page = render(_list_common_measures(reports)[-1], list(map(str, comparisons)), reports)
    files.write_text(os.path.join(output_dir, report.REPORT_FILE), page)
    files.write_text(os.path.join(output_dir, FILE), content + "\n")


def render(measure: str, sentences: Sequence[str], reports: Reports) -> str:
    """Returns report.html, which shows the texts and utterances whose error counts in `measure` differ.

    `sentences` describe the results of the tests.
    """
    alignments = [_align(measures, measure) for measures in reports.values()]
    scored = next(iter(reports.values()))[measure]
    data = {
        "separator": " " if measure == utterances.TOKEN_ERROR_RATE else "",
        "causes": [],  # not shown, because causes depend on the vocabularies, which are unknown here
        "reports": list(reports),
        "texts": count_texts(alignments),
        "utterances": _list_differing(scored, alignments),
    }
    return report_page.template("comparison.html").render(
        measure=measure, sentences=sentences, reports=list(reports), data=data
    )


def count_texts(alignments: Alignments) -> list:
    """Returns [text, count in the references, errors by report] for texts whose error counts differ."""
    flat = [[position for row in rows for position in row if position.reference] for rows in alignments]
    wrong = [collections.Counter(place.reference.text for place in row if place.cause) for row in flat]
    counts = collections.Counter(place.reference.text for place in flat[0])
    table = [[text, count, [errors[text] for errors in wrong]] for text, count in counts.items()]
    differing = (row for row in table if len(set(row[2])) > 1)
    return sorted(differing, key=lambda row: (min(row[2]) - max(row[2]), row[0]))


def _align(measures: Mapping[str, Scored], measure: str) -> list:
    rows = measures[measure]
    pairs = [
        (row.reference_tokens, row.hypothesis_tokens) for row in measures.get(utterances.TOKEN_ERROR_RATE, ())
    ]
    aligned = []
    for row, syllables in zip(rows, pairs or [((), ())] * len(rows)):
        sides = map(attribution.pair, (row.reference_tokens, row.hypothesis_tokens), syllables)
        aligned.append(attribution.attribute(*sides, attribution.KnownVocabularies()))
    return aligned


def _list_differing(scored: Scored, alignments: Alignments) -> list:
    """Returns [id, speaker, alignments by report] for utterances whose error counts differ."""
    rows = []
    for row, *alternatives in zip(scored, *alignments):
        errors = {sum(place.cause is not None for place in positions) for positions in alternatives}
        if len(errors) > 1:
            rows.append([row.utterance_id, row.speaker, list(map(report_page.align, alternatives))])
    return rows


def _list_common_measures(reports: Reports) -> list[str]:
    common = [name for name in utterances.MEASURES if all(name in measures for measures in reports.values())]
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
    if not sum(row.edits.reference_length for row in first):
        raise errors.UserError(
            f"evaluate: --compare: all references in {path} are empty; evaluate data that have transcripts"
        )


def _compare(measure: str, a: str, old: Scored, b: str, new: Scored) -> Comparison:
    lengths = np.array([row.edits.reference_length for row in old])
    errors_a, errors_b = (np.array([row.edits.errors for row in scored]) for scored in (old, new))
    resampled = error_rate.resample(errors_b - errors_a, lengths, breakdown.clusterings(old))
    interval = probability = None
    if resampled is not None:
        interval = error_rate.interval(resampled)
        probability = float(np.mean(resampled.rates < 0) + np.mean(resampled.rates == 0) / 2)
    triples = [Triple(x.reference_tokens, x.hypothesis_tokens, y.hypothesis_tokens) for x, y in zip(old, new)]
    rate_a, rate_b = (float(errors.sum() / lengths.sum()) for errors in (errors_a, errors_b))
    mapsswe = compare_segments(triples)._asdict()
    return Comparison(measure, a, b, rate_a, rate_b, rate_b - rate_a, interval, probability, mapsswe)


class MatchedPairs(NamedTuple):
    """Result of MAPSSWE, a matched-pairs test."""

    num_segments: int
    mean: float  # average over segments of A's errors minus B's
    z: float  # 0 if the difference is the same in all segments
    p: float  # two-tailed: probability of a |z| at least this large if the systems do not differ


class Triple(NamedTuple):
    """Tokens of a reference and of both systems' hypotheses."""

    reference: Sequence[str]
    a: Sequence[str]
    b: Sequence[str]


def compare_segments(triples: Sequence[Triple]) -> MatchedPairs:
    """Compares the errors of systems A and B with MAPSSWE."""
    differences = [difference for triple in triples for difference in _segment_differences(triple)]
    count = len(differences)
    mean = float(np.mean(differences)) if count else 0.0
    deviation = float(np.std(differences, ddof=1)) if count > 1 else 0.0
    z = mean / (deviation / math.sqrt(count)) if deviation else 0.0
    return MatchedPairs(count, mean, z, math.erfc(abs(z) / math.sqrt(2)))


def _segment_differences(triple: Triple) -> Iterator[int]:
    """Yields A's errors minus B's for each segment that has errors."""
    counts = np.stack(
        [edit_distance.count_errors_at(triple.reference, tokens) for tokens in (triple.a, triple.b)]
    )
    difference, is_open, num_good = 0, False, 0
    for place in range(len(triple.reference) + 1):
        insertions, edits = counts[:, 0, place], counts[:, 1, place]
        is_end = place == len(triple.reference)
        if insertions.any() or edits.any():
            is_open, num_good = True, 0
        if not is_end and not edits.any():
            num_good += 1
        difference += int(insertions[0] + edits[0] - insertions[1] - edits[1])
        if is_open and (is_end or num_good == _NUM_GOOD):
            yield difference
            difference, is_open = 0, False
