"""A session that turns serialised records into encoder outputs."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from estimator_asr.checkpointing.pretrained import whisper_weights
from estimator_asr.models import frozen_encoder
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.data import schema


class EncoderSession:
    """Encodes batches on the CPU by one thread, so that neither workers nor cores change a bit."""

    def __init__(self, weights_dir: str, applied: pretrained_encoder.Applied, fbank_dtype: str):
        with tf.Graph().as_default() as graph:
            self._serialized = tf.compat.v1.placeholder(tf.string, [None])
            batch = schema.parse_batch(self._serialized, applied.encoder.num_mel_bins, fbank_dtype)
            self._outputs = frozen_encoder.build(applied, batch["fbank"], batch["num_frames"])
            self._session = tf.compat.v1.Session(graph=graph, config=_one_thread())
            whisper_weights.load(self._session, weights_dir, applied.encoder)

    def encode(self, serialized: Sequence[bytes]) -> list[np.ndarray]:
        """Returns the outputs of each record, float16 [num_subsampled, num_bins].

        Raises:
            tf.errors.InvalidArgumentError: as schema.parse_batch.
        """
        vectors, num_vectors = self._session.run(self._outputs, {self._serialized: list(serialized)})
        return [row[:count] for row, count in zip(vectors, num_vectors)]


@functools.lru_cache(maxsize=1)
def open_session(weights_dir: str, applied: pretrained_encoder.Applied, fbank_dtype: str) -> EncoderSession:
    """Returns the session of this process."""
    return EncoderSession(weights_dir, applied, fbank_dtype)


def _one_thread() -> tf.compat.v1.ConfigProto:
    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1,
        inter_op_parallelism_threads=1,
        use_per_session_threads=True,
        device_count={"GPU": 0},
    )
