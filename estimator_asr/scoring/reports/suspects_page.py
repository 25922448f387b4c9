"""Renders suspects.html, which plays utterances whose transcripts are probably wrong."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence

from estimator_asr.scoring.reports import clips, report_page
from tfrecord_builder.data import recordings

_NUM_EMBEDDED = 100


def render(rows: Sequence[Mapping], by_id: Mapping[str, recordings.Recording], num_utterances: int) -> str:
    """Returns the page.

    Args:
        rows: the suspicious utterances, worst first: id, score, fault, text, heard and words of each.
        by_id: their recordings.
        num_utterances: the number of utterances that were compared with their transcripts.
    """
    shown = rows[:_NUM_EMBEDDED]
    return report_page.template("suspects.html").render(
        num_utterances=num_utterances,
        num_suspects=len(rows),
        faults=collections.Counter(row["fault"] for row in rows).most_common(),
        rows=shown,
        clips=clips.embed(by_id, [row["id"] for row in shown]),
    )
