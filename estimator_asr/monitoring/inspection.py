"""What a checkpoint makes of single utterances: hypothesis, CTC probabilities and the decoder's attention.

It runs on the CPU in a graph of its own, which is built once, so that training keeps its device and memory.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.models import candidates, decoding
from estimator_asr.monitoring import sample_utterances
from estimator_asr.tasks import model_builder

_ATTENTION = "cross_attention/attention_weights"  # see models/layers.attend


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
        build = {"acoustic": _build_acoustic, "language": _build_language}[model.config.model]
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._inputs, self._outputs = build(model)
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
            "token_ids": utterance.token_ids,
            "num_frames": None if utterance.fbank is None else len(utterance.fbank),
            "num_tokens": len(utterance.token_ids),
        }
        feed = {tensor: [values[name]] for name, tensor in self._inputs.items()}
        seen = self._session.run(self._outputs, feed)
        return View(
            seen["hypothesis"][0].tolist(),
            *(seen[key][0] for key in ("log_probs", "attention") if key in seen),
        )


def _build_acoustic(model):
    inputs = {
        "fbank": tf.compat.v1.placeholder(tf.float32, [1, None, model.config.frontend.num_bins]),
        "num_frames": tf.compat.v1.placeholder(tf.int32, [1]),
        **_token_inputs(),
    }
    outputs = model_builder.build_acoustic(model, inputs["fbank"], inputs["num_frames"], inputs)
    seen = {
        "hypothesis": decoding.greedy_ctc(outputs.ctc_logits, outputs.num_frames).ids,
        "log_probs": tf.nn.log_softmax(tf.cast(outputs.ctc_logits, tf.float32)),
    }
    attention = [op for op in seen["log_probs"].graph.get_operations() if op.name.endswith(_ATTENTION)]
    if attention:
        weights = attention[-1].outputs[0]  # [1, heads, tokens + 1, frames]
        seen["attention"] = tf.reduce_mean(tf.cast(weights, tf.float32), axis=1)
    return inputs, seen


def _build_language(model):
    inputs = _token_inputs()
    scored = model_builder.build_language(model, inputs["token_ids"], inputs["num_tokens"])
    return inputs, {"hypothesis": candidates.best(scored).characters}


def _token_inputs():
    return {
        "token_ids": tf.compat.v1.placeholder(tf.int32, [1, None]),
        "num_tokens": tf.compat.v1.placeholder(tf.int32, [1]),
    }
