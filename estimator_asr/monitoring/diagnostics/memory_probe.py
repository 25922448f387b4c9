"""Memory probe: before the first training step, tries the batches that need the most memory."""

from __future__ import annotations

import dataclasses
import resource
import time
from typing import Optional

import numpy as np
import tensorflow as tf
from absl import logging

from estimator_asr.experiment import estimator_api, model_directory
from estimator_asr.inputs import buckets, splits
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary

_COLLECTION = "memory_probe/"


@dataclasses.dataclass(eq=False)
class MemoryProbeHook(estimator_api.SessionRunHook):
    """A hook that computes gradients for the largest batches, without changing weights or reading data."""

    features: dict[str, tf.Tensor]  # features that this replica's model_fn received
    labels: dict[str, tf.Tensor]
    fetch: tf.Tensor  # a tensor that depends on all gradients of all replicas
    model: model_directory.ModelDirectory
    source: splits.Split  # the training data
    bucketing: buckets.Bucketing  # buckets of the training data
    num_replicas: int  # total number of replicas on all machines, which share each batch
    first_step: int  # first step of this run; sessions that start later (after an evaluation) try no batch

    def __post_init__(self):  # runs in every replica's model_fn, so the collections hold all replicas' inputs
        for name, tensor in (*self.features.items(), *self.labels.items()):
            tf.compat.v1.add_to_collection(_COLLECTION + name, tensor)

    def after_create_session(self, session, coord):
        if session.run(tf.compat.v1.train.get_global_step(session.graph)) == self.first_step:
            probabilities = token_probabilities(self.model, self.source.unknown_fraction)
            for rows, length in choose_shapes(self.bucketing):
                self._try(session, rows, length, probabilities)

    def _try(self, session, rows, length, probabilities):
        values = make_batch(-(-rows // self.num_replicas), length, self.source, probabilities)
        keys = session.graph.get_all_collection_keys()
        inputs = {key: session.graph.get_collection(key) for key in keys if str(key).startswith(_COLLECTION)}
        # Every input of every replica is fed, because an unfed input would consume a batch of the data.
        feed = {tensor: values[key[len(_COLLECTION) :]] for key in inputs for tensor in inputs[key]}
        spec, start = self.source.spec, time.monotonic()
        batch = f"{rows} utterances of {length:,} {spec.unit}"
        try:
            session.run(self.fetch, feed)
        except tf.errors.ResourceExhaustedError:
            limit = f"set --{spec.batch_budget} below {rows * length}"
            raise errors.UserError(f"train: a batch of {batch} does not fit in memory; {limit}") from None
        seconds = time.monotonic() - start
        logging.info(f"largest batch ({batch}): {seconds:.1f} s including set-up, {_peak_memory()}")


def choose_shapes(bucketing: buckets.Bucketing) -> list[tuple[int, int]]:
    """Returns (utterances, length) of the batch with the longest utterances, and of the largest batch.

    Attention needs memory quadratic in the length, so either of these batches may need the most memory.
    """
    shapes = bucketing.shapes
    return list(dict.fromkeys([shapes[-1], max(shapes, key=lambda shape: shape[0] * shape[1])]))


def token_probabilities(
    model: model_directory.ModelDirectory, unknown_fraction: float
) -> Optional[np.ndarray]:
    """Returns each token's probability in random text, float64 [tokens]; None if the model reads no tokens.

    The language model needs more memory for tokens with more candidate characters. A token's probability is
    proportional to its number of candidates, because common syllables have many. The unknown token, which has
    all characters as candidates, is as probable as in the data.
    """
    if model.readings is None:
        return None
    counts = model.readings.mask(model.tokens, model.characters).sum(axis=1).astype(np.float64)
    (unknown,) = model.tokens.encode([vocabulary.UNKNOWN])
    counts[unknown] = 0
    probabilities = counts / max(counts.sum(), 1.0) * (1.0 - unknown_fraction)
    probabilities[unknown] = unknown_fraction if counts.any() else 1.0
    return probabilities


def make_batch(
    rows: int, length: int, source: splits.Split, probabilities: Optional[np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns random features and labels for utterances of equal length, with the keys that input_fn uses."""
    rng = np.random.default_rng(0)
    # Utterances with audio get at most one token per two frames after subsampling by 4.
    num_tokens = min(source.max_tokens, -(-length // 8)) if source.num_bins else length
    values = {"num_frames": np.full(rows, length), "seed": np.zeros(2)}
    for name in ("token", "character", "mark"):
        values[f"num_{name}s"] = np.full(rows, num_tokens)
        values[f"{name}_ids"] = np.zeros([rows, num_tokens])
    if source.num_bins:
        values["fbank"] = rng.normal(size=[rows, length, source.num_bins])
        # Tokens alternate, because equal neighbours would need an extra frame between them.
        values["token_ids"] = np.tile(np.arange(num_tokens) % 2, [rows, 1])
    elif probabilities is not None:
        values["token_ids"] = rng.choice(len(probabilities), [rows, num_tokens], p=probabilities)
    return values


def _peak_memory() -> str:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        peak = max(tf.config.experimental.get_memory_info(f"GPU:{i}")["peak"] for i in range(len(gpus)))
        return f"peak {peak / 2**30:.2f} GiB of GPU memory"
    return f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB of memory"
