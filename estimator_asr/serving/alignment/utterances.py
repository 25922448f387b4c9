"""Lists the utterances of a corpus or of data directories, grouped by recording."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import copy_ids
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import dataset_info, manifest
from tfrecord_builder.data import recordings as shard_recordings
from tfrecord_builder.storage import files

LAYOUTS = tuple(sorted(registry.CORPORA))


def list_corpus(layout: str, corpus_dirs: Sequence[str]) -> list[recordings.RecordingFile]:
    """Returns the recordings of a corpus with their utterances.

    Utterances without audio or transcript are left out. Raises errors.UserError if none remain, or as
    registry.list_utterances does.
    """
    return _group(registry.list_utterances(layout, corpus_dirs), f"--corpus_dir={','.join(corpus_dirs)}")


def list_data(data_dirs: Sequence[str]) -> list[recordings.RecordingFile]:
    """Returns the recordings from which data directories were built, with their utterances.

    An utterance that was augmented is returned once. Raises errors.UserError if a file is missing or damaged,
    or if there are no utterances with audio.
    """
    infos = zip(data_dirs, dataset_info.load_all(data_dirs))
    paths = [os.path.join(directory, shard.file) for directory, info in infos for shard in info.shards]
    for path in map(shard_recordings.path_of, paths):
        if not files.exists(path):
            raise errors.UserError(
                f"{path} does not exist, so the recordings are unknown; copy all files of the data directory, "
                "or pass --corpus_dir"
            )
    items = (item for path in paths for item in shard_recordings.read_items(path, _parse))
    return _group({item.utterance_id: item for item in items}.values(), f"--data_dir={','.join(data_dirs)}")


def _parse(parts: dict) -> manifest.Utterance:
    """Returns the utterance of an item; an augmented copy has the id of its original."""
    fields = parts["utterance"]
    name = copy_ids.COPY.split(fields["utterance_id"])[0]
    return manifest.Utterance(**{**fields, "utterance_id": name})


def _group(listed: Iterable[manifest.Utterance], where: str) -> list[recordings.RecordingFile]:
    by_path: dict[str, list[manifest.Utterance]] = {}
    for utterance in listed:
        if utterance.audio and not utterance.problem and (utterance.text or utterance.pinyin):
            by_path.setdefault(utterance.audio, []).append(utterance)
    if not by_path:
        raise errors.UserError(
            f"{where} has no utterances with audio and a transcript; check --corpus and the directory"
        )
    return [
        recordings.RecordingFile(path, path, "", tuple(utterances)) for path, utterances in by_path.items()
    ]
