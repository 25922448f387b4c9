"""The batch that needs most memory, tried before the first step: a budget too large is known at once."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from typing import Optional

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr import estimator_api, model_directory
from estimator_asr.inputs import splits
from tfrecord_builder import errors, vocabulary

_COLLECTION = "input"
_FLAGS = {"acoustic": ("batch_frames", "frames"), "language": ("batch_tokens", "tokens")}


def remember(features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor]) -> None:
    """Keeps what a replica is fed for the hook; each replica's model_fn calls it."""
    for name, tensor in (*features.items(), *labels.items()):
        tf.compat.v1.add_to_collection(f"{_COLLECTION}/{name}", tensor)


def candidates(plan: splits.BatchPlan) -> list[tuple[int, int]]:
    """Returns (utterances, length) of the batch of the longest utterances, for attention takes memory by the
    square of the length, and of the largest one in all, if that is another."""
    shapes = [(size, end) for end, size in zip(plan.bucket_ends, plan.batch_sizes)]
    return list(dict.fromkeys([shapes[-1], max(shapes, key=lambda shape: shape[0] * shape[1])]))


def likely_tokens(model: model_directory.ModelDirectory) -> np.ndarray:
    """Returns ids for a batch to draw from, int64.

    The language model's memory goes with the characters that may be written for a token: each comes as often
    as it has characters, for common syllables have many. The unknown one, which has all of them, is rare.
    """
    if model.config.model == "acoustic":
        return np.arange(2)
    tokens, _ = np.nonzero(model.readings.mask(model.tokens, model.characters))
    return tokens[tokens != model.tokens.encode([vocabulary.UNKNOWN])[0]]


def make(
    shape: tuple[int, int], num_bins: Optional[int], max_tokens: int, tokens: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns random features and labels by the names of input_fn.

    Args:
        shape: utterances and frames (tokens of text).
        num_bins: features a frame; None for text.
        max_tokens: labels of an utterance, at most half of what its subsampled frames could hold.
        tokens: labels take turns among them, tokens of text are drawn.
    """
    rows, length = shape
    rng = np.random.default_rng(0)
    num_tokens = min(max_tokens, -(-length // 8)) if num_bins else length
    values = {
        "num_frames": np.full(rows, length),
        "num_tokens": np.full(rows, num_tokens),
        "num_characters": np.full(rows, num_tokens),
        "token_ids": rng.choice(tokens, [rows, num_tokens]),
        "character_ids": np.zeros([rows, num_tokens]),
        "seed": np.zeros(2),
    }
    if num_bins:
        values["fbank"] = rng.normal(size=[rows, length, num_bins])
        values["token_ids"] = np.tile(np.resize(tokens, num_tokens), [rows, 1])  # CTC needs room for repeats
    return values


class WorstBatchHook(estimator_api.SessionRunHook):
    """Computes the gradients of the worst batches; weights and the place in the data stay as they are."""

    def __init__(
        self,
        fetch: tf.Tensor,
        source: splits.Split,
        tokens: np.ndarray,
        shapes: Sequence[tuple[int, int]],
        num_replicas: int,
        first_step: int,
    ):
        """Takes what it tries.

        Args:
            fetch: what depends on all gradients.
            source: the training data.
            tokens: of likely_tokens.
            shapes: utterances and length of each batch, over all replicas.
            num_replicas: of all machines together; those of this one are fed a part each.
            first_step: of this run; a session that begins later, after an evaluation, tries nothing.
        """
        self._fetch = fetch
        self._source = source
        self._tokens = tokens
        self._shapes = shapes
        self._num_replicas = num_replicas
        self._first_step = first_step

    def begin(self):
        self._global_step = tf.compat.v1.train.get_or_create_global_step()

    def after_create_session(self, session, coord):
        if session.run(self._global_step) == self._first_step:
            for shape in self._shapes:
                self._try(session, shape)

    def _try(self, session, shape):
        flag, unit = _FLAGS[self._source.model]
        rows, length = shape
        part = (-(-rows // self._num_replicas), length)
        values = make(part, self._source.num_bins, self._source.max_tokens, self._tokens)
        feed = {
            tensor: value
            for name, value in values.items()
            for tensor in tf.compat.v1.get_collection(f"{_COLLECTION}/{name}")
        }
        start = time.monotonic()
        try:
            session.run(self._fetch, feed)
        except tf.errors.ResourceExhaustedError:
            raise errors.UserError(
                f"train: a batch of {rows} utterances of {length:,} {unit} is more than the memory holds, "
                f"expected it to fit; give a --{flag} below {rows * length}"
            ) from None
        logging.info(
            f"worst batch: {rows} utterances of {length:,} {unit}: {time.monotonic() - start:.1f} s "
            f"with its preparation, {_peak_memory()}"
        )


def _peak_memory() -> str:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        peak = max(tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"] for i in range(len(gpus)))
        return f"{peak / 2**30:.2f} GiB of a GPU at most"
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB of memory in all"
