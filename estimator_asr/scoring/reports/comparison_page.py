"""report.html of a comparison: characters and utterances that one system has right and another wrong."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from estimator_asr.scoring import attribution, utterances
from estimator_asr.scoring.reports import report_page

_TOKENS = utterances.TOKEN_ERROR_RATE
Alignments = Sequence[Sequence[Sequence[attribution.Position]]]  # by report, of each utterance


def render(
    measure: str,
    sentences: Sequence[str],
    reports: Mapping[str, Mapping[str, Sequence[utterances.ScoredUtterance]]],
) -> str:
    """Returns the page; `measure` is shown, `sentences` are the results of the tests."""
    alignments = [_align(each, measure) for each in reports.values()]
    scored = next(iter(reports.values()))[measure]
    data = {
        "separator": " " if measure == _TOKENS else "",
        "causes": [],  # the vocabularies are not known here
        "reports": list(reports),
        "texts": count_texts(alignments),
        "utterances": _list_differing(scored, alignments),
    }
    return report_page.template("comparison.html").render(
        measure=measure, sentences=sentences, reports=list(reports), data=data
    )


def count_texts(alignments: Alignments) -> list:
    """Returns [text, times in the references, errors of each report] for what not all have equally wrong."""
    heard = [[each for positions in rows for each in positions if each.reference] for rows in alignments]
    wrong = [collections.Counter(each.reference.text for each in row if each.cause) for row in heard]
    spoken = collections.Counter(each.reference.text for each in heard[0])
    table = [[text, count, [errors[text] for errors in wrong]] for text, count in spoken.items()]
    differing = (row for row in table if len(set(row[2])) > 1)
    return sorted(differing, key=lambda row: (min(row[2]) - max(row[2]), row[0]))


def _align(measures: Mapping[str, Sequence[utterances.ScoredUtterance]], measure: str) -> list:
    rows = measures[measure]
    spoken = [(row.reference_tokens, row.hypothesis_tokens) for row in measures.get(_TOKENS, ())]
    aligned = []
    for row, syllables in zip(rows, spoken or [((), ())] * len(rows)):
        sides = map(attribution.pair, (row.reference_tokens, row.hypothesis_tokens), syllables)
        aligned.append(attribution.attribute(*sides, attribution.Vocabularies()))
    return aligned


def _list_differing(scored: Sequence[utterances.ScoredUtterance], alignments: Alignments) -> list:
    """Returns [id, speaker, alignment of each report] of the utterances whose numbers of errors differ."""
    rows = []
    for row, *alternatives in zip(scored, *alignments):
        errors = {sum(each.cause is not None for each in positions) for positions in alternatives}
        if len(errors) > 1:
            rows.append([row.utterance_id, row.speaker, [report_page.align(each) for each in alternatives]])
    return rows
