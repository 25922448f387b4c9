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
from estimator_asr.inputs import buckets, splits
from tfrecord_builder import errors, vocabulary

_COLLECTION = "input"


def remember(features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor]) -> None:
    """Keeps what a replica is fed for the hook; each replica's model_fn calls it."""
    for name, tensor in (*features.items(), *labels.items()):
        tf.compat.v1.add_to_collection(f"{_COLLECTION}/{name}", tensor)


def candidates(bucketing: buckets.Bucketing) -> list[tuple[int, int]]:
    """Returns (utterances, length) of the batch of the longest utterances, for attention takes memory by the
    square of the length, and of the largest one in all, if that is another."""
    shapes = bucketing.shapes
    return list(dict.fromkeys([shapes[-1], max(shapes, key=lambda shape: shape[0] * shape[1])]))


def token_shares(model: model_directory.ModelDirectory, unknown_share: float) -> Optional[np.ndarray]:
    """Returns how often each token of text comes, float64 [tokens]; None for the acoustic model.

    The language model's memory goes with the characters that may be written for a token. Each comes as often
    as it has characters, for common syllables have many; the unknown one, which may be any character, comes
    as often as in the data.
    """
    if model.readings is None:
        return None
    counts = model.readings.mask(model.tokens, model.characters).sum(axis=1).astype(np.float64)
    (unknown,) = model.tokens.encode([vocabulary.UNKNOWN])
    counts[unknown] = 0
    shares = counts / max(counts.sum(), 1.0) * (1.0 - unknown_share)
    shares[unknown] = unknown_share if counts.any() else 1.0
    return shares


def make(
    shape: tuple[int, int], num_bins: Optional[int], max_tokens: int, shares: Optional[np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns random features and labels by the names of input_fn.

    Args:
        shape: utterances and frames (tokens of text).
        num_bins: features a frame; None for text.
        max_tokens: labels of an utterance, at most half of what its subsampled frames could hold.
        shares: of token_shares.
    """
    rows, length = shape
    rng = np.random.default_rng(0)
    num_tokens = min(max_tokens, -(-length // 8)) if num_bins else length
    values = {
        "num_frames": np.full(rows, length),
        "num_tokens": np.full(rows, num_tokens),
        "num_characters": np.full(rows, num_tokens),
        "character_ids": np.zeros([rows, num_tokens]),
        "seed": np.zeros(2),
    }
    if num_bins:
        values["fbank"] = rng.normal(size=[rows, length, num_bins])
        values["token_ids"] = np.tile(np.arange(num_tokens) % 2, [rows, 1])  # CTC needs room for repeats
    else:
        values["token_ids"] = rng.choice(len(shares), [rows, num_tokens], p=shares)
    return values


class WorstBatchHook(estimator_api.SessionRunHook):
    """Computes the gradients of the worst batches; weights and the place in the data stay as they are."""

    def __init__(
        self,
        fetch: tf.Tensor,
        source: splits.Split,
        shares: Optional[np.ndarray],
        shapes: Sequence[tuple[int, int]],
        num_replicas: int,
        first_step: int,
    ):
        """Takes what it tries.

        Args:
            fetch: what depends on all gradients.
            source: the training data.
            shares: of token_shares.
            shapes: utterances and length of each batch, over all replicas.
            num_replicas: of all machines together; those of this one are fed a part each.
            first_step: of this run; a session that begins later, after an evaluation, tries nothing.
        """
        self._fetch = fetch
        self._source = source
        self._token_shares = shares
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
        flag, unit = self._source.spec.batch_budget, self._source.spec.unit
        rows, length = shape
        part = (-(-rows // self._num_replicas), length)
        values = make(part, self._source.num_bins, self._source.max_tokens, self._token_shares)
        inputs = {name: tf.compat.v1.get_collection(f"{_COLLECTION}/{name}") for name in _list_inputs()}
        # One that is not fed would take a batch from the data.
        feed = {tensor: values[name] for name, tensors in inputs.items() for tensor in tensors}
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


def _list_inputs() -> list[str]:
    keys = tf.compat.v1.get_default_graph().get_all_collection_keys()
    return [key[len(_COLLECTION) + 1 :] for key in keys if str(key).startswith(f"{_COLLECTION}/")]


def _peak_memory() -> str:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        peak = max(tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"] for i in range(len(gpus)))
        return f"{peak / 2**30:.2f} GiB of a GPU at most"
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB of memory in all"
