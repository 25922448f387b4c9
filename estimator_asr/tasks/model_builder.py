"""The models of a model directory as graphs: the one place where settings and vocabularies become tensors.

Training and serving build through here, so that both have the same variables.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.models import acoustic, candidates, language
from tfrecord_builder import syllables


def build_acoustic(
    model: model_directory.ModelDirectory,
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
    labels: Optional[dict[str, tf.Tensor]] = None,
    seed: Optional[tf.Tensor] = None,
) -> acoustic.AcousticOutputs:
    """Builds the acoustic model.

    Args:
        model: of kind acoustic.
        fbank: float32 [batch, num_frames, num_bins].
        num_frames: int32 [batch].
        labels: token_ids int32 [batch, max_tokens] and num_tokens int32 [batch], for the attention decoder;
            None leaves it out.
        seed: int64 [2] of the batch, in training: dropout is on and batch norm uses the batch. None: neither.
    """
    return acoustic.build(
        model.config.acoustic,
        fbank,
        num_frames,
        num_classes=model.tokens.num_classes,
        token_parts=_token_parts(model),
        token_ids=labels and labels["token_ids"],
        num_tokens=labels and labels["num_tokens"],
        seed=seed,
    )


def build_language(
    model: model_directory.ModelDirectory,
    token_ids: tf.Tensor,
    num_tokens: tf.Tensor,
    seed: Optional[tf.Tensor] = None,
) -> candidates.Candidates:
    """Builds the language model.

    Args:
        model: of kind language.
        token_ids: int32 [batch, length].
        num_tokens: int32 [batch].
        seed: int64 [2] of the batch, in training: dropout and token noise are on. None: neither.
    """
    return language.build(
        model.config.language,
        token_ids,
        num_tokens,
        token_vocabulary_size=model.tokens.size,
        character_vocabulary_size=model.characters.size,
        character_mask=model.readings.mask(model.tokens, model.characters),
        token_parts=_token_parts(model),
        seed=seed,
    )


def _token_parts(model):
    """Which sounds each token has; None where tokens are no syllables."""
    return syllables.part_matrix(model.tokens.tokens) if model.config.token_type == "syllable" else None
