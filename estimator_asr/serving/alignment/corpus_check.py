"""Runs align for a corpus that is cut already: scores its utterances, and lists the suspicious ones."""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Optional

from estimator_asr.exporting.saved_model import export_info
from estimator_asr.scoring.reports import suspects_page
from estimator_asr.serving import recording_units
from estimator_asr.serving.alignment import frame_scores, suspects, texts, utterance_units
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, manifest, vocabulary
from tfrecord_builder.data import recordings as shard_recordings
from tfrecord_builder.storage import files

_SCORE_COLUMNS = ("id", "audio", "start", "duration", "score", "text", "heard", "tokens")
_SUSPECT_COLUMNS = ("id", "audio", "start", "duration", "score", "fault", "text", "heard", "words")
_NUM_SAMPLED = 1000  # utterances whose language is checked first
_MIN_KNOWN = 0.5  # fraction of the tokens of the transcripts that are in the vocabulary
_MIN_AGREEMENT = 0.1  # fraction of the tokens that agree with the speech


def run(
    inputs: Sequence[recordings.RecordingFile],
    version_dir: str,
    output_dir: str,
    job_dir: str,
    min_score: float,
    runner: str,
    num_workers: Optional[int],
) -> int:
    """Scores the utterances of a corpus with an export, and writes scores.tsv, suspects.tsv and suspects.html.

    Returns the number of recordings with an utterance that cannot be read. Raises errors.UserError, before
    anything is written to these files, if the corpus is in a language that the export does not know. For
    `runner` and `num_workers`, see recording_units.recognise.
    """
    info = export_info.load(version_dir)
    utterances = [utterance for recording in inputs for utterance in recording.utterances]
    _check_language(utterances, version_dir, info.token_type)
    directory = os.path.join(output_dir, job_dir, info.sha256[:12])
    exports, keep = ((version_dir, info.sha256),), functools.partial(suspects.check, info.token_type)
    writer = utterance_units.UtteranceWriter(directory, exports, frame_scores.FrameScorer, keep)
    with recording_units.reserve(output_dir, job_dir, "align"):
        files.make_directory(directory)
        folders = {os.path.dirname(recording.path) for recording in inputs}
        shared = *sorted(folders), os.path.abspath(output_dir), os.path.abspath(version_dir)
        results = recording_units.recognise(inputs, writer, "align", runner, num_workers, shared)
        by_id = {row["id"]: row for result in results for row in result["utterances"]}
        _check_agreement(by_id.values())
        rows = [
            _make_row(utterance, by_id[utterance.utterance_id], min_score)
            for utterance in utterances
            if utterance.utterance_id in by_id
        ]
        _write(output_dir, rows, {utterance.utterance_id: utterance for utterance in utterances})
    return sum(bool(result["problem"]) for result in results)


def _check_language(utterances: Sequence[manifest.Utterance], version_dir: str, token_type: str) -> None:
    path = os.path.join(version_dir, "assets", dataset_info.TOKENS_FILE)
    known, label = set(vocabulary.Vocabulary.load(path).tokens), texts.load_labeller(token_type)
    sample = utterances[:: -(-len(utterances) // _NUM_SAMPLED)]
    tokens = [token for utterance in sample for token in label(utterance).tokens]
    num_known = sum(token in known for token in tokens)
    if num_known < _MIN_KNOWN * len(tokens) or not tokens:
        raise errors.UserError(
            f"only {num_known:,} of {len(tokens):,} tokens in the transcripts are in the vocabulary of "
            f"{version_dir}; use an export for the language of the corpus"
        )


def _check_agreement(results: Iterable[Mapping]) -> None:
    agreements = [result["agreement"] for result in results]
    if agreements and sum(agreements) < _MIN_AGREEMENT * len(agreements):
        raise errors.UserError(
            f"the transcripts do not match the speech: only {sum(agreements) / len(agreements):.0%} of the "
            "tokens agree; use an export for the language that is spoken, or check which transcripts belong "
            "to which recordings"
        )


def _make_row(utterance: manifest.Utterance, result: Mapping, min_score: float) -> dict:
    unclear = suspects.UNCLEAR if result["score"] < min_score else ""
    return {
        **result,
        "audio": utterance.audio,
        "start": utterance.start_seconds,
        "duration": result["seconds"],
        "text": utterance.text or utterance.pinyin,
        "fault": result["fault"] or unclear,
    }


def _write(output_dir: str, rows: Sequence[Mapping], by_id: Mapping[str, manifest.Utterance]) -> None:
    found = sorted((row for row in rows if row["fault"]), key=lambda row: row["score"])
    clips = {
        row["id"]: shard_recordings.Recording(
            row["audio"], row["start"], row["duration"], by_id[row["id"]].channel
        )
        for row in found
    }
    paths = [os.path.join(output_dir, name) for name in ("suspects.html", "scores.tsv", "suspects.tsv")]
    recordings.save(paths[0], suspects_page.render(found, clips, len(rows)))
    recordings.save_table(paths[1], _SCORE_COLUMNS, rows)
    recordings.save_table(paths[2], _SUSPECT_COLUMNS, found)
    print(f"{len(found):,} of {len(rows):,} utterances are suspicious: {paths[2]}, {paths[0]}")
    for fault, count in collections.Counter(row["fault"] for row in found).most_common():
        print(f"{fault}: {count:,}")
