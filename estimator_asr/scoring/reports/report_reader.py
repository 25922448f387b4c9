"""Reads the utterances of a report back from hypotheses.jsonl."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from estimator_asr.scoring import utterances
from estimator_asr.scoring.reports import report
from tfrecord_builder import errors
from tfrecord_builder.storage import files

Scored = Sequence[utterances.ScoredUtterance]
Reports = Mapping[str, Mapping[str, Scored]]  # by path, by measure


def read(path: str) -> dict[str, list[utterances.ScoredUtterance]]:
    """Returns the utterances of a report by measure, ordered by their ids.

    Raises:
        errors.UserError: hypotheses.jsonl is missing, damaged or of an earlier version.
    """
    try:
        rows = [
            json.loads(line)
            for line in files.read_text(os.path.join(path, report.OUTPUTS_FILE)).split("\n")
            if line
        ]
        found: dict[str, list] = {}
        for row in rows:
            for measure, (reference, hypothesis) in row["scored"].items():
                scored = utterances.score(measure, row["utterance_id"], row["speaker"], reference, hypothesis)
                found.setdefault(measure, []).append(scored)
        if not found:
            raise ValueError("it has no utterance")
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.UserError(
            f"evaluate: --compare: {path}: {report.OUTPUTS_FILE} cannot be read ({type(error).__name__}: "
            f"{error}), expected a report of this version of evaluate; evaluate again"
        ) from error


def list_common_measures(reports: Reports) -> list[str]:
    """Returns the measures that all of the reports have, in their usual order.

    Raises:
        errors.UserError: there is none.
    """
    found = [name for name in utterances.MEASURES if all(name in each for each in reports.values())]
    if not found:
        (path, measures), *_ = reports.items()
        raise errors.UserError(
            f"evaluate: --compare: the reports have no error rate in common, expected "
            f"{' or '.join(measures)} as in {path}; compare models of one kind"
        )
    return found


def check_same(path: str, first: Scored, other_path: str, other: Scored) -> None:
    """Raises errors.UserError unless two reports are of the same utterances, which have references."""
    keys, others = ([(each.utterance_id, each.reference) for each in scored] for scored in (first, other))
    if keys != others:
        differing = set(keys).symmetric_difference(others) or {keys[0]}
        raise errors.UserError(
            f"evaluate: --compare: {other_path} has other utterances or references than {path}, for instance "
            f"{min(differing)[0]}; expected the same; evaluate both on the same data and split"
        )
    if not sum(each.edits.reference_length for each in first):
        raise errors.UserError(
            f"evaluate: --compare: {path} has no reference token, expected some; evaluate data with "
            "transcripts"
        )
