"""What CTC gives for the utterances of a split, computed once and decoded many times."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_asr.inputs import input_fn, splits
from estimator_asr.saved_model import cascade, trained_model
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
    model, batches = trained.model, []
    with tf.Graph().as_default(), contextlib.closing(tf.compat.v1.Session()) as session:
        features = registry.of(model).placeholders()
        found = registry.of(model).recognise(features)
        encoding = found.encoding.outputs[..., : None if model.config.acoustic.decoder_layers else 0]
        cascade.restore(session, model, trained.checkpoint)
        for batch in input_fn.read_sample(source, model.config.input, max_utterances):
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
