"""Writes the records of a shard: reads recordings, computes features and collects statistics."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import Optional

import numpy as np

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, frontend
from tfrecord_builder.audio.augmentation import effects
from tfrecord_builder.building import cutting, resumable, shard_statistics, sharding
from tfrecord_builder.data import manifest, recordings, schema, vocabulary
from tfrecord_builder.labels import marking
from tfrecord_builder.program import lazy_tensorflow as tf

Extractor = Callable[[np.ndarray], tuple[np.ndarray, bool]]
FindCut = Callable[[sharding.LabelledUtterance], Optional[np.ndarray]]  # cutting.RecordingCutter.find
RejectedRecording = cutting.RejectedRecording


@dataclasses.dataclass(frozen=True)
class RecordWriter(resumable.UnitWriter):
    """Writes shards, one per unit of work, with a record for each usable item in the shard's .jsonl file."""

    settings: sharding.RecordSettings
    find_cut: Optional[FindCut] = None

    written_type = shard_statistics.ShardStatistics

    def fingerprint(self, shard: sharding.PlannedShard) -> str:
        """Returns the hash of everything that a shard depends on, including the recordings' signatures."""
        settings_sha256 = self.settings.sha256()
        return resumable.hash_json([tf.__version__, settings_sha256, shard.file, shard.items_sha256])

    def make(
        self, shard: sharding.PlannedShard, path: str, on_progress: resumable.OnProgress
    ) -> shard_statistics.ShardStatistics:
        """Writes the records; raises UserError if a recording has changed since the corpus was listed."""
        statistics = shard_statistics.ShardStatistics(shard.file, split=shard.split)
        statistics.items_sha256 = shard.items_sha256
        speakers: set[str] = set()
        with tf.io.TFRecordWriter(os.fsencode(path)) as writer:  # a str would have to be valid UTF-8
            for done, item in enumerate(_read_items(os.path.join(self.directory, shard.file)), 1):
                try:
                    record, level = make_record(item, self.settings, self.find_cut)
                except RejectedRecording as reason:
                    name, audio = item.utterance.utterance_id, item.utterance.audio
                    statistics.rejected.append([name, shard.split, str(reason), audio])
                else:
                    writer.write(schema.make_example(record))
                    statistics.count(record, item, self.settings.vocabularies, level)
                    speakers.add(record.speaker)
                on_progress(done, len(statistics.rejected))
        statistics.speakers = sorted(speakers)
        return statistics


def make_record(
    item: sharding.LabelledUtterance, settings: sharding.RecordSettings, find_cut: Optional[FindCut] = None
) -> tuple[schema.Record, Optional[shard_statistics.Loudness]]:
    """Returns the record of an item and the loudness of its recording (None for text).

    If find_cut(item) returns the waveform, the recording is not read. Raises RejectedRecording if it cannot
    be used, and UserError if it has changed since the corpus was listed, or a disk or object store failed.
    """
    utterance, labels = item.utterance, item.labels
    record = schema.Record(
        utterance_id=utterance.utterance_id,
        speaker=utterance.speaker,
        transcript=labels.transcript,
        pronunciation=" ".join(labels.tokens),
        token_ids=settings.vocabularies.tokens.encode(labels.tokens),
        character_ids=settings.vocabularies.characters.encode(labels.characters),
        mark_ids=labels.mark_ids,
        written=_keep_written(item),
    )
    if settings.frontend is None:
        return record, None
    try:
        try:
            return _add_features(record, item, settings, find_cut and find_cut(item))
        finally:
            _check_unchanged(item)
    except OSError as error:  # always a failed read, because nothing is written here
        raise errors.store_failed(error.filename or utterance.audio, error) from error


def _keep_written(item: sharding.LabelledUtterance) -> str:
    """Returns the text as the corpus writes it; "" if it has no marks, or for --corpus=text."""
    text, labels = item.utterance.text, item.labels
    is_kept = labels.transcript and (item.utterance.audio or labels.mark_ids)
    return text if is_kept and marking.has_marks(text) else ""


def read_waveform(
    utterance: manifest.Utterance, sample_rate: int, max_seconds: float, cut: Optional[np.ndarray] = None
) -> np.ndarray:
    """Returns the recording of an utterance, float32 [num_samples], resampled to `sample_rate` in Hz.

    If `cut` is not None, it is returned after the same checks.

    Raises RejectedRecording if the recording cannot be used, and UserError if the disk failed.
    """
    waveform = cut
    try:
        if waveform is None:
            waveform = audio_files.read_audio(utterance.audio, sample_rate, max_seconds, *utterance.segment)
    except audio_files.AudioError as error:
        if error.reason == audio_files.DISK_FAILED:
            raise
        raise RejectedRecording(error.reason) from None
    peak = max(waveform.max(), -waveform.min())  # NaN if any sample is NaN
    if not np.isfinite(peak):
        raise RejectedRecording("NaN or Inf samples")
    if peak < audio_files.SILENT_PEAK:
        raise RejectedRecording("silent audio")
    return waveform


def _read_items(path: str) -> Iterator[sharding.LabelledUtterance]:
    try:
        yield from sharding.read_items(path)
    except OSError as error:
        raise errors.store_failed(recordings.path_of(path), error) from error


def _add_features(
    record: schema.Record,
    item: sharding.LabelledUtterance,
    settings: sharding.RecordSettings,
    cut: Optional[np.ndarray],
) -> tuple[schema.Record, shard_statistics.Loudness]:
    sample_rate = settings.frontend.sample_rate
    waveform = read_waveform(item.utterance, sample_rate, settings.max_seconds, cut)
    if item.variant:
        waveform = effects.apply(waveform, sample_rate, item.variant)
    if len(waveform) > settings.frontend.max_seconds * sample_rate:
        raise RejectedRecording(f"longer than the encoder's limit of {settings.frontend.max_seconds} s")
    if frontend.num_frames(len(waveform), settings.frontend) < vocabulary.min_ctc_frames(item.labels.tokens):
        raise RejectedRecording("too short for its labels")  # even if the encoder does not subsample
    fbank, is_finite = _build_extractor(settings.frontend, settings.fbank_dtype)(waveform)
    if not is_finite:  # features of very loud samples overflow; one Inf would make the feature mean Inf
        raise RejectedRecording("features overflow")
    record = dataclasses.replace(record, fbank=fbank, duration_ms=round(1000 * len(waveform) / sample_rate))
    return record, shard_statistics.measure_loudness(waveform)


def _check_unchanged(item: sharding.LabelledUtterance) -> None:
    if sharding.file_signature(item.utterance.audio) != item.signature:
        raise errors.UserError(
            f"{item.utterance.audio}: the recording has changed since the corpus was listed; "
            "run the build again without changing the corpus during the build. Finished shards are kept."
        )


@functools.lru_cache(maxsize=1)
def _build_extractor(config: frontend.FrontendConfig, fbank_dtype: str) -> Extractor:
    """Builds a function that extracts the features of a waveform, float32 [num_samples].

    The function returns the features, fbank_dtype [num_frames, num_bins], and True if all are finite.
    """
    from tensorflow.core.protobuf import config_pb2

    with tf.Graph().as_default() as graph:
        waveform = tf.compat.v1.placeholder(tf.float32, [None])
        fbank = tf.cast(frontend.extract(waveform, config), fbank_dtype)
        is_finite = tf.reduce_all(tf.math.is_finite(tf.cast(fbank, tf.float32)))
    session = resumable.open_session(graph)
    # The public make_callable would resolve its fetches in every call, which takes a fifth of a call's time.
    fetches = config_pb2.CallableOptions(feed=[waveform.name], fetch=[fbank.name, is_finite.name])
    return session._make_callable_from_options(fetches)


atexit.register(_build_extractor.cache_clear)  # closes the session before TensorFlow is unloaded
