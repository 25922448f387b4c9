"""What CTC gives for the utterances of a split, computed once and decoded many times."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tqdm

from estimator_asr import config as config_lib
from estimator_asr.inputs import input_fn, splits
from estimator_asr.serving import cascade, trained_model
from estimator_asr.tasks import registry
from tfrecord_builder import errors


class Posteriors(NamedTuple):
    """A batch of utterances with their references."""

    log_probs: np.ndarray  # float32 [batch, num_frames, num_classes], of CTC
    num_frames: np.ndarray  # int32 [batch]
    encoding: np.ndarray  # float32 [batch, num_frames, units], for an attention decoder; units is 0 without
    pronunciations: list[str]
    transcripts: list[str]


def compute(
    trained: trained_model.TrainedModel, source: splits.Split, max_utterances: int
) -> list[Posteriors]:
    """Returns the posteriors of a split, or of about max_utterances of it, chosen by their ids.

    Raises:
        errors.UserError: none is chosen.
    """
    limit = max_utterances / source.num_utterances
    model, batches = trained.model, []
    with tf.Graph().as_default(), contextlib.closing(tf.compat.v1.Session()) as session:
        features = registry.of(model).placeholders()
        found = registry.of(model).recognise(features)
        encoding = found.encoding.outputs[..., : None if model.config.acoustic.decoder_layers else 0]
        cascade.restore(session, model, trained.checkpoint)
        for batch in read(source, model.config.input, limit):
            feeds = {tensor: batch[name] for name, tensor in features.items()}
            values = session.run([found.log_probs, found.num_frames, encoding], feeds)
            texts = ([text.decode("utf-8") for text in batch[key]] for key in ("pronunciation", "transcript"))
            batches.append(Posteriors(*values, *texts))
    check_chosen(batches, source, max_utterances)
    return batches


def check_chosen(batches: list, source: splits.Split, max_utterances: int) -> None:
    """Raises UserError if no utterance of the split was chosen."""
    if not batches:
        raise errors.UserError(
            f"tune: --max_utterances={max_utterances} chooses none of {source.num_utterances} utterances, "
            "expected some; give a larger number"
        )


def read(
    source: splits.Split, config: config_lib.InputConfig, limit: float
) -> Iterator[dict[str, np.ndarray]]:
    """Yields features of a part of the utterances, chosen by their ids, in batches."""
    read = input_fn.build_input_fn(source, config, training=False)
    with tqdm.tqdm(total=source.num_utterances, unit=" utterances", desc="read", disable=None) as progress:
        for batch, _ in input_fn.read_elements(read):
            progress.update(len(batch["utterance_id"]))
            chosen = [zlib.crc32(name) < limit * 2**32 for name in batch["utterance_id"]]
            if any(chosen):
                yield {name: value[chosen] for name, value in batch.items() if len(value) == len(chosen)}
