"""The utterances of the report as compact JSON, which page/report.js turns into tables."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Optional

from estimator_asr.scoring import attribution, utterances
from tfrecord_builder.data import recordings

_CAUSES = {cause: index for index, cause in enumerate(attribution.CAUSES)}


def list_rows(
    scored: Sequence[utterances.ScoredUtterance],
    positions: Sequence[Sequence[attribution.Position]],
    outputs: Sequence[Mapping],
    levels: Mapping[str, float],
) -> dict[str, Any]:
    """Returns `speakers` and `utterances`.

    Returns:
        speakers: names. utterances: a list for each, of the id, the index of the speaker, the level in dBFS
        or None, the confidence or None, and the alignment of `align`.
    """
    speakers = {name: index for index, name in enumerate(sorted({row.speaker for row in scored}))}
    confidences = {each["utterance_id"]: each.get("confidence") for each in outputs}
    rows = [
        [
            row.utterance_id,
            speakers[row.speaker],
            _round(levels.get(row.utterance_id), 1),
            _round(confidences.get(row.utterance_id), 3),
            align(found),
        ]
        for row, found in zip(scored, positions)
    ]
    return {"speakers": list(speakers), "utterances": rows}


def align(positions: Sequence[attribution.Position]) -> list:
    """Returns an alignment from left to right: right texts in lists, and each error.

    An error is {"r": reference or None, "h": hypothesis or None, "s": their two syllables, "c": index of the
    cause}.
    """
    found: list = []
    for each in positions:
        if each.cause is not None:
            texts = [unit and unit.text for unit in (each.reference, each.hypothesis)]
            spoken = [unit and unit.syllable for unit in (each.reference, each.hypothesis)]
            found.append({"r": texts[0], "h": texts[1], "s": spoken, "c": _CAUSES[each.cause]})
        elif found and isinstance(found[-1], list):
            found[-1].append(each.reference.text)
        else:
            found.append([each.reference.text])
    return [_join(each) if isinstance(each, list) else each for each in found]


def list_files(found: Mapping[str, recordings.Recording], left_out: Collection[str]) -> dict:
    """Returns the URLs of the files of recordings, {"root": prefix of all, "rest": rest by utterance id}."""
    urls = {
        name: recordings.url(each.path, each.start_seconds, each.seconds)
        for name, each in found.items()
        if name not in left_out
    }
    urls = {name: url for name, url in urls.items() if url}
    root = os.path.commonprefix(list(urls.values()))
    return {"root": root, "rest": {name: url[len(root) :] for name, url in urls.items()}}


def _join(texts: list[str]) -> Any:
    """Returns one string of single characters, which takes less room, or the list."""
    return "".join(texts) if all(len(text) == 1 for text in texts) else texts


def _round(value: Optional[float], digits: int) -> Optional[float]:
    return None if value is None else round(value, digits)
