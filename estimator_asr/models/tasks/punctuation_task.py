"""Punctuation task: finds the punctuation mark after each character."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.experiment import task_spec
from estimator_asr.models import layers, losses, punctuation
from estimator_asr.models.tasks import metrics, task
from tfrecord_builder.data import marks

_COUNTED = tuple(map(marks.MARKS.index, "，。？"))  # the marks that published results count


class Punctuation(task.Task):
    """The punctuation task, which finds the mark after each character."""

    spec = task_spec.PUNCTUATION

    def check_ids(self, features, labels):
        character_ids, num_characters = features["character_ids"], features["num_characters"]
        character_ids = losses.check_labels(character_ids, num_characters, self.model.characters.size)
        mark_ids = losses.check_labels(labels["mark_ids"], labels["num_marks"], punctuation.NUM_MARKS)
        return {**features, "character_ids": character_ids}, {**labels, "mark_ids": mark_ids}

    def build(self, features, labels=None, seed=None) -> tf.Tensor:
        """Returns the logits of the marks, float32 [batch, length, punctuation.NUM_MARKS]."""
        return punctuation.build(
            self.model.config.punctuation,
            features["character_ids"],
            features["num_characters"],
            vocabulary_size=self.model.characters.size,
            seed=seed,
        )

    def losses(self, outputs, features, labels, training) -> metrics.Losses:
        weights = layers.sequence_mask(labels["num_marks"], tf.shape(outputs)[1])
        loss = losses.cross_entropy(outputs, labels["mark_ids"], weights)
        return metrics.Losses(tf.reduce_sum(loss), {}, tf.reduce_sum(weights))

    def metrics(self, outputs, features, labels, losses) -> dict[str, metrics.Ratio]:
        """Returns the precision and recall of commas, full stops and question marks together, and 1 - F1.

        F1 is 2 x right / (found + expected), so 1 - F1 is a ratio of sums. It selects the best checkpoint,
        because the rate of wrong marks would favour a model that writes too few.
        """
        is_real = tf.sequence_mask(labels["num_marks"], tf.shape(outputs)[1])
        (best, _), references = punctuation.choose(outputs), labels["mark_ids"]
        is_found, is_expected = (is_real & _is_counted(ids) for ids in (best, references))
        num_found, num_expected, num_right = (
            tf.reduce_sum(tf.cast(flags, tf.float32))
            for flags in (is_found, is_expected, is_found & tf.equal(best, references))
        )
        num_both = num_found + num_expected
        return {
            self.spec.error_rate: metrics.Ratio(num_both - 2 * num_right, num_both),
            "precision": metrics.Ratio(num_right, num_found),
            "recall": metrics.Ratio(num_right, num_expected),
        }

    def decode(self, outputs, features) -> task.Recognition:
        """Returns the chosen mark after each character (see punctuation.choose), and its probability."""
        num_characters = features["num_characters"]
        is_real = tf.sequence_mask(num_characters, tf.shape(outputs)[1])
        ids, probs = punctuation.choose(outputs)
        ids, probs = tf.where(is_real, ids, -1), tf.where(is_real, probs, 1.0)
        scores = tf.reduce_sum(tf.math.log(probs), axis=1)
        return task.Recognition(ids, num_characters, scores, character_probs=probs)


def _is_counted(mark_ids):
    return tf.reduce_any(tf.equal(mark_ids[..., None], _COUNTED), axis=-1)
