"""Task: one interface for everything that depends on the kind of model, such as acoustic or language.

model_fn, evaluation, cascade and TensorBoard's prediction samples work with any Task in tasks.py.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import experiment, model_directory, task_spec
from estimator_asr.models.tasks import metrics
from tfrecord_builder.data import syllables

if TYPE_CHECKING:  # the model code is loaded later, by the tasks that need it
    from estimator_asr.decoding.search import hypotheses, scorers
    from estimator_asr.models import encoders

Tensors = dict[str, tf.Tensor]


class Forward(NamedTuple):
    """Losses and metrics for a batch."""

    losses: metrics.Losses  # sums over the batch
    ratios: dict[str, metrics.Ratio]  # keyed by tag: error rate after decoding, and other metrics
    num_inputs: tf.Tensor  # int32 [], number of frames or tokens, excluding padding

    def metrics(self) -> dict[str, metrics.Ratio]:
        """Returns losses per label and all other metrics, keyed by tag."""
        return {**self.losses.ratios(), **self.ratios}


class Recognition(NamedTuple):
    """Hypotheses for a batch. Not all tasks set the fields that have a default value.

    `attention` holds the weights with which labels attend to frames in the decoder's last block, averaged
    over the heads; it is None if there are no labels or no decoder.
    """

    ids: tf.Tensor  # int32 [batch, max_ids], tokens or characters, -1 at or beyond num_ids
    num_ids: tf.Tensor  # int32 [batch]
    scores: tf.Tensor  # float32 [batch], log probability
    log_probs: Optional[tf.Tensor] = None  # CTC output, float32 [batch, num_subsampled, num_classes]
    attention: Optional[tf.Tensor] = None  # float32 [batch, num_labels + 1, num_subsampled]
    num_frames: Optional[tf.Tensor] = None  # number of CTC output frames, int32 [batch]
    n_best: Optional[hypotheses.Hypotheses] = None  # hypotheses from the CTC search; the first is `ids`
    character_probs: Optional[tf.Tensor] = None  # float32 [batch, max_ids]
    encoding: Optional[encoders.Encoding] = None  # output of the acoustic encoder
    scorers: Sequence[scorers.Scorer] = ()  # scorers that the CTC search used


class Task(abc.ABC):
    """A model (settings and vocabularies) with its features and labels, graph, losses, metrics and decoding.

    `features` and `labels` are dicts of tensors from input_fn. All variables are in the scope `spec.name`.
    """

    spec: task_spec.TaskSpec

    def __init__(self, model: model_directory.ModelDirectory):
        self.model = model

    @abc.abstractmethod
    def build(
        self, features: Tensors, labels: Optional[Tensors] = None, seed: Optional[tf.Tensor] = None
    ) -> Any:
        """Builds the graph and returns its outputs, which are passed to losses, metrics and decode.

        `labels` are used only by a decoder. `seed`, int64 [2], is the random seed for the batch in training;
        if None, dropout is off, and batch norm uses its moving averages.
        """

    @abc.abstractmethod
    def losses(self, outputs: Any, features: Tensors, labels: Tensors, training: bool) -> metrics.Losses:
        """Returns the sums of the losses over the batch."""

    @abc.abstractmethod
    def metrics(
        self, outputs: Any, features: Tensors, labels: Tensors, losses: metrics.Losses
    ) -> dict[str, metrics.Ratio]:
        """Returns all metrics other than the losses, keyed by tag; `spec.error_rate` is among them."""

    @abc.abstractmethod
    def decode(self, outputs: Any, features: Tensors) -> Recognition:
        """Returns the best hypothesis for each utterance."""

    @staticmethod
    def complete(config: experiment.ExperimentConfig) -> experiment.ExperimentConfig:
        """Returns the settings for a new run, with derived settings filled in.

        Raises errors.UserError if the settings are incompatible.
        """
        return config

    def placeholders(self, batch_size: Optional[int] = None) -> Tensors:
        """Returns placeholders for `spec.features`, named after their keys."""
        key, length_key = self.spec.features
        bins, dtype = [], tf.int32
        if self.spec.reads_audio:
            bins, dtype = [self.model.config.frontend.num_bins], tf.float32
        return {
            key: tf.compat.v1.placeholder(dtype, [batch_size, None, *bins], key),
            length_key: tf.compat.v1.placeholder(tf.int32, [batch_size], length_key),
        }

    def check_ids(self, features: Tensors, labels: Tensors) -> tuple[Tensors, Tensors]:
        """Returns features and labels; a task may add checks that stop a step if an id is out of range."""
        return features, labels

    def forward(self, features: Tensors, labels: Tensors, training: bool) -> Forward:
        """Builds the model with its losses and metrics; in training, `features` must contain "seed"."""
        features, labels = self.check_ids(features, labels)
        outputs = self.build(features, labels, features["seed"] if training else None)
        num_inputs = tf.reduce_sum(features[self.spec.length_key])
        losses = self.losses(outputs, features, labels, training)
        with tf.xla.experimental.jit_scope(compile_ops=False):  # XLA would recompile for each length
            return Forward(losses, self.metrics(outputs, features, labels, losses), num_inputs)

    def recognise(self, features: Tensors, labels: Optional[Tensors] = None) -> Recognition:
        """Builds the model and decodes; if labels are passed, the result includes their attention weights."""
        return self.decode(self.build(features, labels), features)

    def predict(self, features: Tensors) -> Tensors:
        """Returns an EstimatorSpec's predictions: ids and their number (keys `spec.labels`), and `score`."""
        best = self.recognise(features)
        ids, num_ids = self.spec.labels
        return {ids: best.ids, num_ids: best.num_ids, "score": best.scores}

    def rate_of(self, variable: str) -> float:
        """Returns the factor by which the learning rate is multiplied for the variable with this name."""
        del variable
        return 1.0

    def token_parts(self) -> Optional[np.ndarray]:
        """Returns syllables.part_matrix for the tokens; None if the tokens are not toned syllables."""
        is_syllable = self.model.config.token_type == "syllable"
        return syllables.part_matrix(self.model.tokens.tokens) if is_syllable else None
