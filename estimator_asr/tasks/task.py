"""Task: all that depends on which model is trained, behind one interface.

model_fn, evaluation, cascade and TensorBoard's prediction samples work with any Task of registry.py.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr import experiment, model_directory, task_spec
from estimator_asr.models import losses as losses_lib
from estimator_asr.tasks import metrics, objective
from tfrecord_builder import syllables

Tensors = dict[str, tf.Tensor]


class Forward(NamedTuple):
    """Losses and metrics of a batch.

    Attributes:
        losses: sums over the batch.
        ratios: decoded error rate and other metrics, by tag.
        num_inputs: int32 [], frames or tokens without padding.
    """

    losses: objective.Losses
    ratios: dict[str, metrics.Ratio]
    num_inputs: tf.Tensor

    def metrics(self) -> dict[str, metrics.Ratio]:
        """Returns losses per label and all other metrics, by tag."""
        return {**self.losses.ratios(), **self.ratios}


class Recognition(NamedTuple):
    """Hypotheses of a batch.

    Attributes:
        ids: int32 [batch, max_ids], tokens or characters, -1 at or beyond num_ids.
        num_ids: int32 [batch].
        scores: float32 [batch], log probability.
        log_probs: float32 [batch, num_subsampled, num_classes], of the CTC head; None for the language model.
        attention: float32 [batch, num_labels + 1, num_subsampled], of the decoder's last block given the
            labels, mean of its heads; None without labels or without a decoder.
    """

    ids: tf.Tensor
    num_ids: tf.Tensor
    scores: tf.Tensor
    log_probs: Optional[tf.Tensor] = None
    attention: Optional[tf.Tensor] = None


class Task(abc.ABC):
    """A model with its features and labels, graph, losses, metrics and decoding.

    `model` is a model_directory.ModelDirectory (settings and vocabularies), `features` and `labels` are the
    tensors of input_fn by key. All variables are made under the scope `spec.name`.
    """

    spec: task_spec.TaskSpec
    uses_ctc = False

    @abc.abstractmethod
    def build(
        self,
        model: model_directory.ModelDirectory,
        features: Tensors,
        labels: Optional[Tensors] = None,
        seed: Optional[tf.Tensor] = None,
    ) -> Any:
        """Builds the graph and returns its outputs, as `losses`, `metrics` and `decode` take them.

        Args:
            model: settings and vocabularies.
            features: what `spec.features` names.
            labels: what `spec.labels` names, for a decoder that needs them.
            seed: int64 [2] of the batch, in training: dropout is on and batch norm uses the batch. None:
                neither.
        """

    @abc.abstractmethod
    def losses(
        self,
        model: model_directory.ModelDirectory,
        outputs: Any,
        features: Tensors,
        labels: Tensors,
        training: bool,
        ctc_kernel: str,
    ) -> objective.Losses:
        """Returns the sums of the losses over the batch."""

    @abc.abstractmethod
    def metrics(
        self,
        model: model_directory.ModelDirectory,
        outputs: Any,
        features: Tensors,
        labels: Tensors,
        losses: objective.Losses,
    ) -> dict[str, metrics.Ratio]:
        """Returns the metrics beside the losses by tag, `spec.error_rate` among them."""

    @abc.abstractmethod
    def decode(self, model: model_directory.ModelDirectory, outputs: Any, features: Tensors) -> Recognition:
        """Returns the best hypothesis of each utterance."""

    def placeholders(self, config: experiment.ExperimentConfig, batch_size: Optional[int] = None) -> Tensors:
        """Returns placeholders for `spec.features`, named by their keys."""
        key, length_key = self.spec.features
        bins, dtype = ([config.frontend.num_bins], tf.float32) if self.spec.reads_audio else ([], tf.int32)
        return {
            key: tf.compat.v1.placeholder(dtype, [batch_size, None, *bins], key),
            length_key: tf.compat.v1.placeholder(tf.int32, [batch_size], length_key),
        }

    def complete(self, config: experiment.ExperimentConfig) -> experiment.ExperimentConfig:
        """Returns the settings of a new run with what follows from them.

        Raises:
            errors.UserError: a setting names an unknown part of the model.
        """
        return config

    def check_ids(
        self, model: model_directory.ModelDirectory, features: Tensors, labels: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Returns features and labels, and fails in the step in which an id is out of range."""
        del model
        return features, labels

    def forward(
        self,
        model: model_directory.ModelDirectory,
        features: Tensors,
        labels: Tensors,
        training: bool,
        ctc_kernel: str = losses_lib.CLASSIC,
    ) -> Forward:
        """Builds the model with its losses and metrics.

        Args:
            model, features, labels: as for `build`; in training features hold the batch's seed.
            training: whether dropout, label smoothing and batch statistics are on.
            ctc_kernel: one of losses.KERNELS, for a task that uses CTC.
        """
        features, labels = self.check_ids(model, features, labels)
        outputs = self.build(model, features, labels, features["seed"] if training else None)
        num_inputs = tf.reduce_sum(features[self.spec.length_key])
        losses = self.losses(model, outputs, features, labels, training, ctc_kernel)
        return Forward(losses, self.metrics(model, outputs, features, labels, losses), num_inputs)

    def recognise(
        self, model: model_directory.ModelDirectory, features: Tensors, labels: Optional[Tensors] = None
    ) -> Recognition:
        """Builds the model and decodes; with labels the attention to them is returned too."""
        return self.decode(model, self.build(model, features, labels), features)

    def predict(self, model: model_directory.ModelDirectory, features: Tensors) -> Tensors:
        """Returns the predictions of an EstimatorSpec: ids and their number by `spec.labels`, and score."""
        found = self.recognise(model, features)
        ids, num_ids = self.spec.labels
        return {ids: found.ids, num_ids: found.num_ids, "score": found.scores}


def find_token_parts(model: model_directory.ModelDirectory) -> Optional[np.ndarray]:
    """Returns the initials, finals and tones of each token (syllables.part_matrix); None for other units."""
    return syllables.part_matrix(model.tokens.tokens) if model.config.token_type == "syllable" else None
