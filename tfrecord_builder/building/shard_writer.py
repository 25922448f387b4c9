"""Writes one shard: reads the recordings of its items, computes features, and collects statistics."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import Optional

import numpy as np

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.augmentation import effects
from tfrecord_builder.building import checks, sharding
from tfrecord_builder.data import recordings, schema
from tfrecord_builder.output import worker_pool
from tfrecord_builder.records import items, loudness, shard_statistics
from tfrecord_builder.runtime import lazy_tensorflow as tf
from tfrecord_builder.storage import files
from tfrecord_builder.tokens import vocabulary

Extractor = Callable[[np.ndarray], tuple[np.ndarray, bool]]


def write_or_explain(
    shard: sharding.Shard,
    on_progress: worker_pool.OnProgress,
    settings: sharding.Settings,
    directory: str,
) -> shard_statistics.ShardStatistics:
    """Writes a shard as write_shard does; raises UserError if the disk refuses it."""
    try:
        return write_shard(shard, settings, directory, on_progress)
    except Exception as error:  # not Ctrl-C, which may come while TensorFlow is imported
        worker_pool.explain_refusal(directory, shard.file, error)
        raise


def write_shard(
    shard: sharding.Shard, settings: sharding.Settings, directory: str, on_progress: worker_pool.OnProgress
) -> shard_statistics.ShardStatistics:
    """Writes directory/<shard.file>, then <shard.file>.json; each appears whole or not at all.

    Args:
        shard: the shard; its .jsonl file lies in the directory.
        settings: what every shard is made with.
        directory: where to write.
        on_progress: called after each utterance.

    Returns:
        The statistics, as in the JSON file.

    Raises:
        UserError: a recording has changed since the corpus was listed.
    """
    path = os.path.join(directory, shard.file)
    with contextlib.suppress(FileNotFoundError):
        files.remove(f"{path}.json")  # of an earlier shard: beside this one it would be believed
    with files.writing(path) as temporary:
        statistics = _write_records(shard, settings, directory, temporary, on_progress)
        statistics.num_bytes = os.path.getsize(temporary)
        statistics.sha256 = files.sha256(temporary)
        files.sync(temporary)
    statistics.items_sha256 = shard.items_sha256
    statistics.fingerprint = sharding.shard_fingerprint(shard, settings)
    statistics.save(f"{path}.json")
    return statistics


def load_finished(
    shard: sharding.Shard, settings: sharding.Settings, directory: str
) -> Optional[shard_statistics.ShardStatistics]:
    """Returns the statistics of a shard that an interrupted build finished; None if there is none.

    The shard is not read: its statistics were written when all of it was on the disk.
    """
    path = os.path.join(directory, shard.file)
    try:
        statistics = shard_statistics.ShardStatistics.load(f"{path}.json")
        num_bytes, _ = files.size_and_time(path)
    except (FileNotFoundError, ValueError, TypeError, AttributeError):  # cut, or from another version
        return None
    is_same = statistics.fingerprint == sharding.shard_fingerprint(shard, settings)
    return statistics if is_same and num_bytes == statistics.num_bytes else None


def make_record(
    item: items.Item, settings: sharding.Settings
) -> tuple[schema.Record, Optional[loudness.Loudness]]:
    """Returns the record of an item and the loudness of its recording (None for text).

    Raises:
        checks.Rejected: its recording cannot be used.
        UserError: its recording has changed since the corpus was listed, or its disk or store fails.
    """
    utterance, labels = item.utterance, item.labels
    record = schema.Record(
        utterance_id=utterance.utterance_id,
        speaker=utterance.speaker,
        transcript=labels.transcript,
        pronunciation=" ".join(labels.tokens),
        token_ids=settings.vocabularies.tokens.encode(labels.tokens),
        character_ids=settings.vocabularies.characters.encode(labels.characters),
        fbank=None,
        duration_ms=0,
    )
    if settings.frontend is None:
        return record, None
    try:
        return _add_features(record, item, settings)
    except OSError as error:  # nothing is written here
        raise errors.store_failed(error.filename or utterance.audio, error) from error


def _write_records(
    shard: sharding.Shard,
    settings: sharding.Settings,
    directory: str,
    path: str,
    on_progress: worker_pool.OnProgress,
) -> shard_statistics.ShardStatistics:
    statistics = shard_statistics.ShardStatistics(file=shard.file, split=shard.split)
    speakers: set[str] = set()
    with tf.io.TFRecordWriter(os.fsencode(path)) as writer:  # it takes only UTF-8, or bytes
        for done, item in enumerate(_read_items(os.path.join(directory, shard.file)), 1):
            try:
                record, level = make_record(item, settings)
            except checks.Rejected as reason:
                name, audio = item.utterance.utterance_id, item.utterance.audio
                statistics.rejected.append([name, shard.split, str(reason), audio])
            else:
                writer.write(schema.make_example(record))
                statistics.count(record, item, settings.vocabularies, level)
                speakers.add(record.speaker)
            on_progress(done, len(statistics.rejected))
    statistics.speakers = sorted(speakers)
    return statistics


def _read_items(path: str) -> Iterator[items.Item]:
    try:
        yield from items.read(path)
    except OSError as error:
        raise errors.store_failed(recordings.path_of(path), error) from error


def _add_features(
    record: schema.Record, item: items.Item, settings: sharding.Settings
) -> tuple[schema.Record, loudness.Loudness]:
    try:
        return _extract(record, item, settings)
    finally:
        _check_unchanged(item)


def _extract(
    record: schema.Record, item: items.Item, settings: sharding.Settings
) -> tuple[schema.Record, loudness.Loudness]:
    sample_rate = settings.frontend.sample_rate
    waveform = checks.read_waveform(item.utterance, sample_rate, settings.max_seconds)
    if item.variant:
        waveform = effects.apply(waveform, sample_rate, item.variant)
    if len(waveform) > settings.frontend.max_seconds * sample_rate:
        raise checks.Rejected(checks.TOO_LONG_FOR_WHISPER)
    if frontend.num_frames(len(waveform), settings.frontend) < vocabulary.min_ctc_frames(item.labels.tokens):
        raise checks.Rejected(checks.TOO_SHORT)  # even for an encoder that does not subsample
    fbank, is_finite = _build_extractor(settings.frontend, settings.fbank_dtype)(waveform)
    if not is_finite:  # finite samples may be too loud; one such frame would spoil the mean of all
        raise checks.Rejected(checks.OVERFLOW)
    duration_ms = round(1000 * len(waveform) / sample_rate)
    return dataclasses.replace(record, fbank=fbank, duration_ms=duration_ms), loudness.measure(waveform)


def _check_unchanged(item: items.Item) -> None:
    if items.file_signature(item.utterance.audio) != item.signature:
        raise errors.UserError(
            f"{item.utterance.audio}: the recording has changed since the corpus was listed; "
            "run the build again and leave the corpus alone while it runs: finished shards are kept."
        )


@functools.lru_cache(maxsize=1)
def _build_extractor(config: frontend.FrontendConfig, fbank_dtype: str) -> Extractor:
    """Builds the frontend: a function of float32 [num_samples].

    It returns fbank_dtype [num_frames, num_bins] and whether all of that is finite. It uses one thread and
    no GPU, so that neither the number of workers nor that of cores changes a bit.
    """
    from tensorflow.core.protobuf import config_pb2

    with tf.Graph().as_default() as graph:
        waveform = tf.compat.v1.placeholder(tf.float32, [None])
        fbank = tf.cast(frontend.extract(waveform, config), fbank_dtype)
        is_finite = tf.reduce_all(tf.math.is_finite(tf.cast(fbank, tf.float32)))
    options = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=1,
        use_per_session_threads=True,
        device_count={"GPU": 0},
    )
    session = tf.compat.v1.Session(graph=graph, config=options)
    # The public make_callable looks its fetches up at every call, which takes a fifth of the time.
    fetches = config_pb2.CallableOptions(feed=[waveform.name], fetch=[fbank.name, is_finite.name])
    return session._make_callable_from_options(fetches)


atexit.register(_build_extractor.cache_clear)  # a session cannot be closed after TensorFlow is gone
