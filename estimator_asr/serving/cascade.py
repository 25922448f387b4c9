"""The cascade as a graph: features -> acoustic model -> tokens -> language model -> text.

The models meet in token strings, so each keeps its own vocabulary; a token that the language model does not
know is its <unk>. Nothing depends on who else is in the batch or on how far it is padded: what lies at or
beyond a length is ignored.
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


class Transcripts(NamedTuple):
    """What the cascade says; the field names are the output names of every signature."""

    transcript: tf.Tensor  # string [batch], hanzi, or the joined tokens without a language model
    pinyin: tf.Tensor  # string [batch], tokens with blanks between them
    acoustic_score: tf.Tensor  # float32 [batch], log probability of the best CTC path
    # Log probability of the characters, float32 [batch]; 0 without a language model.
    language_score: tf.Tensor


def transcribe(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
) -> Transcripts:
    """Run the cascade.

    Args:
      acoustic: the acoustic model; variables are made here and filled by `restore`.
      language: the language model, or None.
      fbank: float32 [batch, num_frames, num_bins].
      num_frames: int32 [batch]; 0 gives an empty transcript.
    """
    tokens = recognise(acoustic, {"fbank": fbank, "num_frames": num_frames})
    pinyin = join(tokens, "syllable")
    if language is None:
        transcript = join(tokens, acoustic.config.token_type)
        return Transcripts(transcript, pinyin, tokens.scores, tf.zeros_like(tokens.scores))
    spoken = _syllables(tokens) if acoustic.config.token_type == "initial_final" else tokens
    characters = convert(language, spoken.strings, spoken.num_strings)
    return Transcripts(join(characters, "character"), pinyin, tokens.scores, characters.scores)


def recognise(model: model_directory.ModelDirectory, features: dict[str, tf.Tensor]) -> Sequences:
    """Returns the hypotheses of one model as tokens or characters.

    Args:
        model: of any task.
        features: what its task reads, by key; nobody in the batch needs to have a frame or token.
    """
    key, _ = model.config.spec.features
    features = {**features, key: _at_least_one_column(features[key])}
    found = registry.of(model.config).recognise(model, features)
    return Sequences(_strings_of_ids(model, found.ids), found.num_ids, found.scores)


def convert(model: model_directory.ModelDirectory, tokens: tf.Tensor, num_tokens: tf.Tensor) -> Sequences:
    """Returns the characters of tokens, one for one.

    Args:
        model: the language model.
        tokens: string [batch, max_tokens].
        num_tokens: int32 [batch]; tokens at or beyond it are ignored.
    """
    return recognise(model, {"token_ids": _ids_of_tokens(model, tokens), "num_tokens": num_tokens})


def join(sequences: Sequences, token_type: str) -> tf.Tensor:
    """Write each sequence as vocabulary.join_tokens does; string [batch]."""
    strings = tf.RaggedTensor.from_tensor(sequences.strings, lengths=sequences.num_strings)
    joining = vocabulary.JOININGS[token_type]
    written = tf.strings.reduce_join(strings, axis=-1, separator=joining.separator)
    for pattern, replacement in joining.rules:
        written = tf.strings.regex_replace(written, pattern, replacement)
    return written


def restore(session: tf.compat.v1.Session, model: model_directory.ModelDirectory, checkpoint: str) -> None:
    """Fill the variables of one model, all of them under the scope of its kind, from a checkpoint prefix."""
    scope = f"{model.config.model}/"
    variables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, scope)
    checkpoints.check_variables(checkpoint, model, variables)
    tf.compat.v1.train.Saver(variables).restore(session, checkpoint)


def _syllables(sequences: Sequences) -> Sequences:
    """Put initials and finals together, for a language model that reads syllables."""
    strings = tf.strings.split(join(sequences, "initial_final"))
    return Sequences(strings.to_tensor(), tf.cast(strings.row_lengths(), tf.int32), sequences.scores)


def _at_least_one_column(batch: tf.Tensor) -> tf.Tensor:
    """Pad axis 1 where nobody in the batch has a frame or token, so that no layer meets an empty axis."""
    missing = tf.maximum(0, 1 - tf.shape(batch)[1])
    paddings = [[0, 0], [0, missing]] + [[0, 0]] * (batch.shape.rank - 2)
    return tf.pad(batch, paddings, constant_values=tf.zeros([], batch.dtype))


def _strings_of_ids(model: model_directory.ModelDirectory, ids: tf.Tensor) -> tf.Tensor:
    """Looks ids up in the vocabulary file of the output; -1 becomes ""."""
    is_characters = model.config.spec.writes_characters
    file = dataset_info.CHARACTERS_FILE if is_characters else dataset_info.TOKENS_FILE
    initializer = tf.lookup.TextFileInitializer(
        os.path.join(model.path, file),
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
    )
    return tf.lookup.StaticHashTable(initializer, default_value="").lookup(tf.cast(ids, tf.int64))


def _ids_of_tokens(model: model_directory.ModelDirectory, tokens: tf.Tensor) -> tf.Tensor:
    """Look tokens up in the model's vocabulary; one that is not in it gives the id of <unk>."""
    initializer = tf.lookup.TextFileInitializer(
        os.path.join(model.path, dataset_info.TOKENS_FILE),
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    table = tf.lookup.StaticHashTable(initializer, default_value=vocabulary.Vocabulary.unknown_id)
    return tf.cast(table.lookup(tokens), tf.int32)
