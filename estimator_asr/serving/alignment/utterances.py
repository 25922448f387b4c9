"""Lists the utterances of a corpus or of data directories, each as a recording with its utterance."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import copy_ids
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import dataset_info, manifest
from tfrecord_builder.data import recordings as shard_recordings

LAYOUTS = tuple(sorted(registry.CORPORA))


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
