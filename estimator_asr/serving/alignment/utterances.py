"""Lists the utterances of a corpus or of data directories, and recognises them in batches.

Each unit has many utterances, so that batches can be full.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence

from estimator_asr.serving import recording_units
from estimator_asr.serving.alignment import forced_alignment
from estimator_asr.serving.transcripts import captions, pauses, recordings, transcriber
from tfrecord_builder import errors
from tfrecord_builder.audio import segment_reader
from tfrecord_builder.audio.augmentation import copy_ids
from tfrecord_builder.building import resumable
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import dataset_info, manifest
from tfrecord_builder.data import recordings as shard_recordings

LAYOUTS = tuple(sorted(registry.CORPORA))
_MAX_SECONDS = 300.0  # longer utterances cannot be aligned; see forced_alignment


def list_corpus(layout: str, corpus_dirs: Sequence[str]) -> list[recordings.RecordingFile]:
    """Returns the utterances of a corpus that have audio and a transcript.

    Raises errors.UserError if there are none, or as registry.list_utterances does.
    """
    return _select(registry.list_utterances(layout, corpus_dirs), f"--corpus_dir={','.join(corpus_dirs)}")


def list_data(data_dirs: Sequence[str]) -> list[recordings.RecordingFile]:
    """Returns the utterances from which data directories were built, each once, even if it was augmented.

    Raises errors.UserError if there are none with audio, or if a file is missing or damaged.
    """
    infos = zip(data_dirs, dataset_info.load_all(data_dirs))
    paths = [os.path.join(directory, shard.file) for directory, info in infos for shard in info.shards]
    where = f"--data_dir={','.join(data_dirs)}"
    try:
        items = [item for path in paths for item in shard_recordings.read_items(path, _parse)]
    except FileNotFoundError as error:
        raise errors.UserError(
            f"{where}: {error.filename} is missing; copy or build the data again"
        ) from None
    originals = {(item.utterance_id, item.audio, item.segment): item for item in items}
    return _select(originals.values(), where)


def _parse(parts: dict) -> manifest.Utterance:
    """Returns the utterance of an item; an augmented copy gets the id of its original."""
    name = copy_ids.COPY.split(parts["utterance"]["utterance_id"])[0]
    return manifest.Utterance(**{**parts["utterance"], "utterance_id": name})


def _select(listed: Iterable[manifest.Utterance], where: str) -> list[recordings.RecordingFile]:
    inputs = [
        recordings.RecordingFile(utterance.audio, utterance.utterance_id, utterance=utterance)
        for utterance in listed
        if utterance.audio and not utterance.problem and (utterance.text or utterance.pinyin)
    ]
    if not inputs:
        raise errors.UserError(f"{where} has no utterances with audio and a transcript; check the directory")
    return inputs


class UtteranceWriter(recording_units.RecordingWriter):
    """Recognises the utterances in each unit, and writes their rows, with the duration in seconds.

    Here, `keep` takes a list of utterances and what was heard in each, and returns the values to add to the
    rows, as suspects.check does.
    """

    item = "utt"
    min_unit_size = 100

    def make(
        self, unit: recording_units.RecordingUnit, path: str, on_progress: resumable.OnProgress
    ) -> resumable.ShardReceipt:
        versions = [recording_units.load_export(*export) for export in self.exports]
        sample_rate = versions[0].info.frontend.sample_rate
        rows = [{"signature": signature, "problem": ""} for _, signature in unit.signed]
        segments: list[list[captions.TranscriptSegment]] = [[] for _ in rows]
        owners: list[int] = []  # the utterance of each piece
        pieces = _read_pieces(unit, sample_rate, rows, owners, on_progress)
        batches = transcriber.recognise_pieces(self.find_model(versions), pieces, sample_rate)
        for segment, owner in zip(itertools.chain.from_iterable(batches), owners):
            segments[owner].append(segment)
        good = [number for number, row in enumerate(rows) if not row["problem"]]
        utterances = [unit.signed[number][0].utterance for number in good]
        speech = [forced_alignment.join_segments(segments[number]) for number in good]
        for number, values in zip(good, self.keep(utterances, speech)):
            rows[number].update(values)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
        notes = [f"error: {row['problem']}" for row in rows if row["problem"]]
        return resumable.ShardReceipt(unit.file, len(good), notes=notes)


def _read_pieces(unit, sample_rate, rows, owners, on_progress) -> Iterator[pauses.Piece]:
    """Yields the utterances' audio; appends each piece's owner, and adds seconds or a problem to each row."""
    for number, (pair, read) in enumerate(zip(unit.signed, _read_utterances(unit, sample_rate))):
        try:
            recording_units.check_unchanged(*pair)
            if isinstance(read, errors.UserError):
                raise read
        except errors.UserError as error:
            rows[number]["problem"] = f"{pair[0].utterance.utterance_id}: {error}"
            continue
        rows[number]["seconds"] = round(len(read) / sample_rate, 3)
        for piece in pauses.cut([read], sample_rate):
            owners.append(number)
            yield piece
        on_progress(number + 1, 0)


def _read_utterances(unit, sample_rate):
    """Yields each utterance's waveform, or an error; decodes a recording once for successive utterances."""
    for path, group in itertools.groupby((recording for recording, _ in unit.signed), lambda item: item.path):
        segments = [recording.utterance.segment for recording in group]
        try:
            yield from segment_reader.read(path, segments, sample_rate, _MAX_SECONDS)
        except OSError as error:
            raise errors.store_failed(path, error) from error
