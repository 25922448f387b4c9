"""Encodes a shard: writes the same records in the same order, with the encoder's outputs as features."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from estimator_asr.inputs import shard_cache, splits
from estimator_asr.models import frozen_encoder
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend, pretrained_encoder
from tfrecord_builder.building import resumable
from tfrecord_builder.data import dataset_info, schema
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

# Approximate number of frames in memory; sorting their records by length reduces the padding in batches.
_WINDOW_FRAMES = 100_000
_BATCH_FRAMES = 4000  # larger batches are not faster

Encode = Callable[[Sequence[bytes]], list[np.ndarray]]


@dataclasses.dataclass(frozen=True)
class ShardToEncode:
    """A shard to encode; `file` is the shard's name in both the data directory and the output directory."""

    file: str
    split: str
    num_items: int
    num_bytes: int
    sha256: str


@dataclasses.dataclass
class Encoded(resumable.ShardReceipt):
    """An encoded shard that was written to disk."""

    lengths: dict[str, int] = dataclasses.field(default_factory=dict)  # {output frames: number of records}


@dataclasses.dataclass(frozen=True)
class ShardEncoder(resumable.UnitWriter):
    """A writer that encodes the shards of a data directory."""

    data_dir: str
    weights_dir: str
    applied: pretrained_encoder.Applied
    fbank_dtype: str  # data type of the features in the shards to encode

    written_type = Encoded

    def fingerprint(self, shard: ShardToEncode) -> str:
        return resumable.hash_json([tf.__version__, dataclasses.asdict(self.applied), shard.sha256])

    def make(self, shard: ShardToEncode, path: str, on_progress: resumable.OnProgress) -> Encoded:
        """Encodes a shard; raises UserError if the shard is damaged or the encoder outputs NaN or Inf."""
        encode = open_encoder(self.weights_dir, self.applied, self.fbank_dtype)
        with _open_local(shard, self.data_dir) as source:
            with splits.explain_damage([self.data_dir], shard.split):
                lengths = _write_records(source, path, encode, on_progress)
        return Encoded(shard.file, shard.num_items, lengths=lengths)


@functools.lru_cache(maxsize=1)
def open_encoder(weights_dir: str, applied: pretrained_encoder.Applied, fbank_dtype: str) -> Encode:
    """Returns a function that encodes serialised records; each output is float16 [num_outputs, num_bins]."""
    tf.get_logger().setLevel("ERROR")  # workers do not run the program's main, which sets this level
    with tf.Graph().as_default() as graph:
        placeholder = tf.compat.v1.placeholder(tf.string, [None])
        batch = schema.parse_batch(placeholder, frontend.input_of(applied.encoder).num_bins, fbank_dtype)
        outputs = frozen_encoder.build(applied, batch["fbank"], batch["num_frames"])
        session = resumable.open_session(graph)
        encoder_weights.load(session, weights_dir, applied.encoder)

    def encode(records: Sequence[bytes]) -> list[np.ndarray]:
        vectors, num_vectors = session.run(outputs, {placeholder: list(records)})
        return [row[:count] for row, count in zip(vectors, num_vectors)]

    return encode


@contextlib.contextmanager
def _open_local(shard: ShardToEncode, data_dir: str) -> Iterator[str]:
    """Yields the path of a local shard after checking its hash; a remote shard is downloaded first."""
    path = os.path.join(data_dir, shard.file)
    if urls.is_remote(path):
        with tempfile.TemporaryDirectory() as directory:
            local = os.path.join(directory, shard.file)
            open(local, "wb").close()
            shard_cache.download(splits.DataShard(path, shard.num_bytes, shard.sha256), local)
            yield local
        return
    try:
        sha256 = files.sha256(path)
    except OSError as error:
        raise errors.store_failed(path, error) from error
    if sha256 != shard.sha256:
        raise errors.UserError(
            f"{path}: shard does not match the sha256 in {dataset_info.INFO_FILE}; copy or build the shard "
            "again"
        )
    yield path


def _write_records(source, target, encode, on_progress) -> dict[str, int]:
    lengths, done = collections.Counter(), 0
    with tf.io.TFRecordWriter(os.fsencode(target)) as writer:
        for window in _cut_windows(schema.read_shard(source)):
            for record, vectors in zip(window, _encode(window, encode, on_progress, done)):
                writer.write(schema.replace_features(record, vectors))
                lengths[str(len(vectors))] += 1
            done += len(window)
    return lengths


def _cut_windows(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    window, num_frames = [], 0
    for record in records:
        window.append(record)
        num_frames += schema.count(record, "num_frames")
        if num_frames >= _WINDOW_FRAMES:
            yield window
            window, num_frames = [], 0
    if window:
        yield window


def _encode(window: Sequence[bytes], encode, on_progress, done: int) -> list[np.ndarray]:
    """Returns the encoder's outputs for each record in `window`, in the same order."""
    lengths = [schema.count(record, "num_frames") for record in window]
    order = sorted(range(len(window)), key=lambda number: (lengths[number], number))
    outputs: list = [None] * len(window)
    for batch in _cut(order, lengths):
        for number, vectors in zip(batch, encode([window[number] for number in batch])):
            if not np.isfinite(vectors).all():
                raise errors.UserError(
                    f"{schema.utterance_id(window[number])}: the encoder outputs NaN or Inf; listen to the "
                    "recording, and leave it out of the corpus"
                )
            outputs[number] = vectors
            done += 1
            on_progress(done, 0)
    return outputs


def _cut(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Cuts record numbers, sorted by length, into batches of at most _BATCH_FRAMES frames (with padding)."""
    batch: list[int] = []
    for number in order:
        if batch and (len(batch) + 1) * lengths[number] > _BATCH_FRAMES:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
