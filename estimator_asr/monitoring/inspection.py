"""What a checkpoint makes of single utterances: hypothesis, CTC probabilities and the decoder's attention.

It runs on the CPU in a graph of its own, which is built once, so that training keeps its device and memory.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.monitoring import sample_utterances
from estimator_asr.tasks import registry


class View(NamedTuple):
    """What is seen of an utterance.

    Attributes:
        hypothesis: ids of the tokens, or of the characters for the language model.
        log_probs: float32 [num_subsampled, num_classes], of the CTC head; None for the language model.
        attention: float32 [num_tokens + 1, num_subsampled], of the decoder's last block given the reference,
            the mean of its heads; None without a decoder.
    """

    hypothesis: list[int]
    log_probs: Optional[np.ndarray] = None
    attention: Optional[np.ndarray] = None


class Inspector:
    """A model whose weights come from one checkpoint after the other."""

    def __init__(self, model: model_directory.ModelDirectory):
        task, spec = registry.of(model.config), model.config.spec
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._features = task.placeholders(model.config, batch_size=1)
            ids, num_ids = spec.labels
            self._labels = {
                ids: tf.compat.v1.placeholder(tf.int32, [1, None]),
                num_ids: tf.compat.v1.placeholder(tf.int32, [1]),
            }
            found = task.recognise(model, self._features, self._labels)
            fetches = {"hypothesis": found.ids, "log_probs": found.log_probs, "attention": found.attention}
            self._fetches = {name: tensor for name, tensor in fetches.items() if tensor is not None}
            self._saver = tf.compat.v1.train.Saver()
        settings = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
        self._session = tf.compat.v1.Session(graph=graph, config=settings)

    def restore(self, checkpoint: str) -> None:
        """Takes the weights of a checkpoint, given by its prefix."""
        with self._session.graph.as_default():
            self._saver.restore(self._session, checkpoint)

    def view(self, utterance: sample_utterances.Utterance) -> View:
        """Runs the model on an utterance."""
        values = {
            "fbank": utterance.fbank,
            "num_frames": None if utterance.fbank is None else len(utterance.fbank),
            "token_ids": utterance.token_ids,
            "num_tokens": len(utterance.token_ids),
            "character_ids": utterance.character_ids,
            "num_characters": len(utterance.character_ids),
        }
        inputs = (*self._features.items(), *self._labels.items())
        found = self._session.run(self._fetches, {tensor: [values[name]] for name, tensor in inputs})
        found = {name: value[0] for name, value in found.items()}
        return View(found.pop("hypothesis").tolist(), **found)
