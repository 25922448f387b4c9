"""Encodes one shard: the same records in the same order, with the encoder's outputs as features."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.encoding import session
from estimator_asr.inputs import input_fn, shard_cache, splits
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.data import dataset_info, schema
from tfrecord_builder.output import worker_pool
from tfrecord_builder.storage import files

# Records of about so many frames are in memory, sorted by length so that batches have little padding.
_WINDOW_FRAMES = 100_000
_BATCH_FRAMES = 4000  # larger batches are not faster


@dataclasses.dataclass(frozen=True)
class Shard:
    """A shard to encode; `file` is its name in both directories."""

    file: str
    split: str
    num_items: int
    num_bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all shards are encoded with."""

    data_dir: str
    directory: str  # to write to
    weights_dir: str
    applied: pretrained_encoder.Applied
    fbank_dtype: str  # of the records that are read

    def fingerprint(self, shard: Shard) -> list:
        """Returns all that the bytes of an encoded shard depend on."""
        return [tf.__version__, dataclasses.asdict(self.applied), shard.sha256]


@dataclasses.dataclass(frozen=True)
class Encoded:
    """An encoded shard; its JSON file beside the shard marks it as finished."""

    file: str
    num_records: int
    num_bytes: int
    sha256: str
    lengths: dict[str, int]  # number of records by number of output frames
    fingerprint: list
    rejected: tuple = ()


def find_finished(shard: Shard, settings: Settings) -> Optional[Encoded]:
    """Returns what an interrupted run has written of a shard, if it is whole."""
    path = os.path.join(settings.directory, shard.file)
    try:
        found = Encoded(**json.loads(files.read_text(f"{path}.json")))
        is_whole = found.fingerprint == _as_json(settings.fingerprint(shard))
        return found if is_whole and files.sha256(path) == found.sha256 else None
    except (OSError, ValueError, TypeError):
        return None


def write(shard: Shard, on_progress: worker_pool.OnProgress, settings: Settings) -> Encoded:
    """Writes a shard and its JSON file into the directory of the settings, each whole or not at all.

    Raises:
        errors.UserError: the shard is damaged, outputs are NaN or Inf, or the disk refuses.
    """
    try:
        return _write(shard, on_progress, settings)
    except Exception as error:
        worker_pool.explain_refusal(settings.directory, shard.file, error)
        raise


def _write(shard, on_progress, settings):
    path = os.path.join(settings.directory, shard.file)
    with _open_local(shard, settings.data_dir) as source, files.writing(path) as temporary:
        with splits.explain_damage([settings.data_dir], shard.split):
            lengths = _write_records(source, temporary, settings, on_progress)
        size, sha256 = os.path.getsize(temporary), files.sha256(temporary)
    done = Encoded(shard.file, shard.num_items, size, sha256, lengths, settings.fingerprint(shard))
    files.write_text(f"{path}.json", json.dumps(dataclasses.asdict(done)))
    return done


def _as_json(value):
    return json.loads(json.dumps(value))


@contextlib.contextmanager
def _open_local(shard: Shard, data_dir: str) -> Iterator[str]:
    """Yields a local path of the shard, whose hash is checked."""
    path = os.path.join(data_dir, shard.file)
    if files.is_remote(path):
        with tempfile.TemporaryDirectory() as directory:
            local = os.path.join(directory, shard.file)
            open(local, "wb").close()
            shard_cache.download(splits.Shard(path, shard.num_bytes, shard.sha256), local)
            yield local
        return
    try:
        sha256 = files.sha256(path)
    except OSError as error:
        raise errors.store_failed(path, error) from error
    if sha256 != shard.sha256:
        raise errors.UserError(
            f"{path}: shard has another sha256 than {dataset_info.INFO_FILE} says; copy or build it again"
        )
    yield path


def _write_records(source, target, settings, on_progress) -> dict[str, int]:
    encoder = session.open_session(settings.weights_dir, settings.applied, settings.fbank_dtype)
    lengths: collections.Counter = collections.Counter()
    records = input_fn.read_elements(lambda: tf.data.TFRecordDataset(source))
    done = 0
    with tf.io.TFRecordWriter(os.fsencode(target)) as writer:
        for window in _cut_windows(records):
            for record, vectors in zip(window, _encode(window, encoder, on_progress, done)):
                writer.write(schema.replace_features(record, vectors))
                lengths[str(len(vectors))] += 1
            done += len(window)
    return dict(sorted(lengths.items(), key=lambda item: int(item[0])))


def _cut_windows(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    window, num_frames = [], 0
    for record in records:
        window.append(record)
        num_frames += schema.count_frames(record)
        if num_frames >= _WINDOW_FRAMES:
            yield window
            window, num_frames = [], 0
    if window:
        yield window


def _encode(window: Sequence[bytes], encoder, on_progress, done: int) -> list[np.ndarray]:
    """Returns the outputs of each record, in its order."""
    lengths = [schema.count_frames(record) for record in window]
    order = sorted(range(len(window)), key=lambda number: (lengths[number], number))
    outputs: list = [None] * len(window)
    for batch in _cut(order, lengths):
        for number, vectors in zip(batch, encoder.encode([window[number] for number in batch])):
            _check_finite(window[number], vectors)
            outputs[number] = vectors
            done += 1
            on_progress(done, 0)
    return outputs


def _cut(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Cuts numbers in the order of their lengths into batches of _BATCH_FRAMES, padding included."""
    batch: list[int] = []
    for number in order:
        if batch and (len(batch) + 1) * lengths[number] > _BATCH_FRAMES:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _check_finite(record, vectors):
    if not np.isfinite(vectors).all():
        raise errors.UserError(
            f"{schema.utterance_id(record)}: outputs of the encoder are NaN or Inf, expected float16 values; "
            "listen to the recording, and leave it out of the corpus"
        )
