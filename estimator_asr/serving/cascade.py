"""The cascade as a graph: features -> acoustic model -> tokens -> language model -> transcript.

The models pass token strings, so each keeps its own vocabulary; a token that the language model does not know
is its <unk>. A result depends neither on the other utterances of the batch nor on its padding: everything at
or beyond a length is ignored.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.checkpointing import checkpoints
from estimator_asr.tasks import registry
from tfrecord_builder import dataset_info, vocabulary


class Sequences(NamedTuple):
    """Tokens or characters of a batch, as strings."""

    strings: tf.Tensor  # string [batch, max_length], "" at or beyond num_strings
    num_strings: tf.Tensor  # int32 [batch]
    scores: tf.Tensor  # float32 [batch], log probability


def transcribe(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """Builds the cascade; `restore` fills its variables.

    Args:
        acoustic, language: the models; without a language model transcripts are joined tokens.
        fbank: float32 [batch, num_frames, num_bins].
        num_frames: int32 [batch]; 0 makes an empty transcript.

    Returns:
        The outputs of every signature, [batch] each: transcript (string), pinyin (string, tokens separated by
        spaces), acoustic_score (float32, log probability of the best CTC path) and language_score (of the
        characters; 0 without a language model).
    """
    tokens = recognise(acoustic, {"fbank": fbank, "num_frames": num_frames})
    if language is None:
        transcript, language_score = join(tokens, acoustic.config.token_type), tf.zeros_like(tokens.scores)
    else:
        spoken = _syllables(tokens) if acoustic.config.token_type == "initial_final" else tokens
        characters = convert(language, spoken.strings, spoken.num_strings)
        transcript, language_score = join(characters, "character"), characters.scores
    return {
        "transcript": transcript,
        "pinyin": join(tokens, "syllable"),
        "acoustic_score": tokens.scores,
        "language_score": language_score,
    }


def recognise(model: model_directory.ModelDirectory, features: dict[str, tf.Tensor]) -> Sequences:
    """Returns the hypotheses of a model of any task as strings; all of the features may have length 0."""
    key, _ = model.config.spec.features
    features = {**features, key: _at_least_one_column(features[key])}
    found = registry.of(model).recognise(features)
    is_characters = model.config.spec.writes_characters
    file = dataset_info.CHARACTERS_FILE if is_characters else dataset_info.TOKENS_FILE
    strings = _table(model, file, tf.int64, tf.string, "").lookup(tf.cast(found.ids, tf.int64))
    return Sequences(strings, found.num_ids, found.scores)


def convert(model: model_directory.ModelDirectory, tokens: tf.Tensor, num_tokens: tf.Tensor) -> Sequences:
    """Returns the characters that the language model writes for tokens, one for one.

    Tokens are string [batch, max_tokens]; those at or beyond num_tokens (int32 [batch]) are ignored.
    """
    unknown_id = vocabulary.Vocabulary.unknown_id
    ids = _table(model, dataset_info.TOKENS_FILE, tf.string, tf.int64, unknown_id).lookup(tokens)
    return recognise(model, {"token_ids": tf.cast(ids, tf.int32), "num_tokens": num_tokens})


def join(sequences: Sequences, token_type: str) -> tf.Tensor:
    """Joins each sequence as vocabulary.join_tokens does; returns string [batch]."""
    strings = tf.RaggedTensor.from_tensor(sequences.strings, lengths=sequences.num_strings)
    joining = vocabulary.JOININGS[token_type]
    joined = tf.strings.reduce_join(strings, axis=-1, separator=joining.separator)
    for pattern, replacement in joining.rules:
        joined = tf.strings.regex_replace(joined, pattern, replacement)
    return joined


def restore(session: tf.compat.v1.Session, model: model_directory.ModelDirectory, checkpoint: str) -> None:
    """Restores the variables of one model, all of them under the scope of its task, from a checkpoint."""
    scope = f"{model.config.spec.name}/"
    variables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, scope)
    checkpoints.check_variables(checkpoint, model, variables)
    tf.compat.v1.train.Saver(variables).restore(session, checkpoint)


def _syllables(sequences: Sequences) -> Sequences:
    """Joins initials and finals, for a language model that reads syllables."""
    strings = tf.strings.split(join(sequences, "initial_final"))
    return Sequences(strings.to_tensor(), tf.cast(strings.row_lengths(), tf.int32), sequences.scores)


def _at_least_one_column(batch: tf.Tensor) -> tf.Tensor:
    """Pads axis 1 where all lengths of the batch are 0, so that no layer gets an empty axis."""
    missing = tf.maximum(0, 1 - tf.shape(batch)[1])
    paddings = [[0, 0], [0, missing]] + [[0, 0]] * (batch.shape.rank - 2)
    return tf.pad(batch, paddings, constant_values=tf.zeros([], batch.dtype))


def _table(model, file, key_type, value_type, default) -> tf.lookup.StaticHashTable:
    """Returns the table from line number to line of a vocabulary file, or back."""
    indices = {tf.int64: tf.lookup.TextFileIndex.LINE_NUMBER, tf.string: tf.lookup.TextFileIndex.WHOLE_LINE}
    columns = (key_type, indices[key_type], value_type, indices[value_type])
    path = os.path.join(model.path, file)
    return tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(path, *columns), default)
