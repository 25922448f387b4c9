"""Recognises single utterances with the weights of one checkpoint after the other, beside a training.

It runs on the CPU in a graph of its own, which is built once, so that training keeps its device and memory.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.monitoring import sample_utterances
from estimator_asr.tasks import registry, task


class SampleRecogniser:
    """A model in a session."""

    def __init__(self, model: model_directory.ModelDirectory):
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            features = registry.of(model.config).placeholders(model.config, batch_size=1)
            ids, num_ids = model.config.spec.labels
            labels = {
                ids: tf.compat.v1.placeholder(tf.int32, [1, None]),
                num_ids: tf.compat.v1.placeholder(tf.int32, [1]),
            }
            found = registry.of(model.config).recognise(model, features, labels)
            self._inputs = {**features, **labels}
            self._fetches = {name: value for name, value in found._asdict().items() if value is not None}
            self._saver = tf.compat.v1.train.Saver()
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
        self._session = tf.compat.v1.Session(graph=graph, config=config)

    def restore(self, checkpoint: str) -> None:
        """Restores the weights of a checkpoint, given by its prefix."""
        with self._session.graph.as_default():
            self._saver.restore(self._session, checkpoint)

    def recognise(self, utterance: sample_utterances.Utterance) -> task.Recognition:
        """Returns the recognition of an utterance, with its attention given the reference.

        Returns:
            Numpy values as task.Recognition describes them, without the batch axis.
        """
        feed = {tensor: [utterance.values[name]] for name, tensor in self._inputs.items()}
        found = self._session.run(self._fetches, feed)
        return task.Recognition(**{name: value[0] for name, value in found.items()})
