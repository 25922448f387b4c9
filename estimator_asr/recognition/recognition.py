"""Recognises every utterance of a split once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tqdm

from estimator_asr.inputs import input_fn, splits
from estimator_asr.recognition import subject as subject_lib
from estimator_asr.scoring import utterances


class Recognised(NamedTuple):
    """What a subject made of a split, ordered by utterance ids; fields of scored_split.ScoredSplit."""

    measures: dict[str, list[utterances.ScoredUtterance]]
    outputs: list[dict]
    pronunciations: dict[str, str]  # of the references, where the subject reads no audio
    on_reference_pinyin: list[utterances.ScoredUtterance]


def recognise(subject: subject_lib.Subject, source: splits.Split) -> Recognised:
    """Recognises and scores the split, with a progress bar."""
    found = Recognised({measure: [] for measure in subject.measures}, [], {}, [])
    with tqdm.tqdm(
        total=source.num_utterances, unit=" utterances", desc="evaluate", disable=None
    ) as progress:
        read = input_fn.build_input_fn(source, subject.input, training=False)
        for batch, _ in input_fn.read_elements(read):
            _add(found, subject, batch)
            progress.update(len(batch["utterance_id"]))
    for rows in (*found.measures.values(), found.on_reference_pinyin):
        rows.sort(key=lambda row: row.utterance_id)
    found.outputs.sort(key=lambda row: row["utterance_id"])
    return found


def _add(found: Recognised, subject: subject_lib.Subject, batch: Mapping) -> None:
    values, ids = subject.recogniser.run(batch), _texts(batch, "utterance_id")
    for measure, (reference, hypothesis) in subject.measures.items():
        found.measures[measure] += _score(measure, batch, reference, values[hypothesis])
    found.outputs.extend(dict(zip(("utterance_id", *values), row)) for row in zip(ids, *values.values()))
    if not subject.spec.reads_audio:
        found.pronunciations.update(zip(ids, _texts(batch, "pronunciation")))
    if subject.language is not None:
        written = subject.language.run({"pinyin": np.array(batch["pronunciation"], object)})["transcript"]
        measure, (reference, _) = list(subject.measures.items())[-1]
        found.on_reference_pinyin.extend(_score(measure, batch, reference, written))


def _score(measure: str, batch: Mapping, reference: str, hypotheses) -> Iterator[utterances.ScoredUtterance]:
    ids, speakers, references = (_texts(batch, name) for name in ("utterance_id", "speaker", reference))
    for row in zip(ids, speakers, references, hypotheses):
        yield utterances.score(measure, *row)


def _texts(batch: Mapping, name: str) -> list[str]:
    return [item.decode("utf-8") for item in batch[name]]
