"""Renders a comparison's report.html: texts and utterances that one system gets right and another wrong."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from estimator_asr.scoring import attribution, utterances
from estimator_asr.scoring.reports import report_page

_TOKENS = utterances.TOKEN_ERROR_RATE
Alignments = Sequence[Sequence[Sequence[attribution.AlignedPosition]]]  # positions by report and utterance


def render(
    measure: str,
    sentences: Sequence[str],
    reports: Mapping[str, Mapping[str, Sequence[utterances.ScoredUtterance]]],
) -> str:
    """Returns the page, which shows errors in `measure`; `sentences` are the results of the tests."""
    alignments = [_align(measures, measure) for measures in reports.values()]
    scored = next(iter(reports.values()))[measure]
    data = {
        "separator": " " if measure == _TOKENS else "",
        "causes": [],  # not shown: they depend on the vocabularies, which are unknown here
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


def _align(measures: Mapping[str, Sequence[utterances.ScoredUtterance]], measure: str) -> list:
    rows = measures[measure]
    pairs = [(row.reference_tokens, row.hypothesis_tokens) for row in measures.get(_TOKENS, ())]
    aligned = []
    for row, syllables in zip(rows, pairs or [((), ())] * len(rows)):
        sides = map(attribution.pair, (row.reference_tokens, row.hypothesis_tokens), syllables)
        aligned.append(attribution.attribute(*sides, attribution.KnownVocabularies()))
    return aligned


def _list_differing(scored: Sequence[utterances.ScoredUtterance], alignments: Alignments) -> list:
    """Returns [id, speaker, alignments by report] for utterances whose error counts differ."""
    rows = []
    for row, *alternatives in zip(scored, *alignments):
        errors = {sum(place.cause is not None for place in positions) for positions in alternatives}
        if len(errors) > 1:
            rows.append([row.utterance_id, row.speaker, list(map(report_page.align, alternatives))])
    return rows
