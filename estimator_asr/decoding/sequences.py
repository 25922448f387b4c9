"""TensorFlow operations that look up the strings of tokens and characters, and join them into text."""

from __future__ import annotations

import os
from typing import NamedTuple

import tensorflow as tf

from estimator_asr.experiment import model_directory
from tfrecord_builder.data import syllables as syllables_lib
from tfrecord_builder.data import vocabulary

_TABLES = "vocabulary_tables"  # graph collection that holds {(path, key type): lookup table}


class Sequences(NamedTuple):
    """A batch of token or character sequences, one in each row; a row is an utterance or a hypothesis."""

    strings: tf.Tensor  # string [rows, max_length], padded with ""
    num_strings: tf.Tensor  # int32 [rows]
    scores: tf.Tensor  # float32 [rows], log probability of each sequence
    probs: tf.Tensor  # float32 [rows, max_length], probability of each string

    def take(self, rows: tf.Tensor) -> Sequences:
        """Returns the sequences in `rows`, int32 [num_rows]."""
        return Sequences(*(tf.gather(field, rows) for field in self))


def join(sequences: Sequences, token_type: str) -> tf.Tensor:
    """Joins each sequence into text, as vocabulary.join_tokens does; returns string [rows]."""
    strings = tf.RaggedTensor.from_tensor(sequences.strings, lengths=sequences.num_strings)
    joining = vocabulary.JOININGS[token_type]
    joined = tf.strings.reduce_join(strings, axis=-1, separator=joining.separator)
    for pattern, replacement in joining.rules:
        joined = tf.strings.regex_replace(joined, pattern, replacement)
    return joined


def join_initials(sequences: Sequences) -> tuple[Sequences, tf.Tensor]:
    """Joins initials and finals into syllables, in lower case like the tokens of syllable models.

    Returns:
        The syllables, all with probability 1, and the syllable index of each token, int32 [rows, max_length].
    """
    strings = tf.strings.split(tf.strings.lower(join(sequences, "initial_final"), "utf-8"))
    counts, syllables = tf.cast(strings.row_lengths(), tf.int32), strings.to_tensor()
    is_initial = tf.strings.regex_full_match(sequences.strings, syllables_lib.INITIAL)
    is_final = tf.strings.regex_full_match(sequences.strings, syllables_lib.FINAL)
    ends_syllable = tf.pad(is_initial[:, :-1], [[0, 0], [1, 0]]) & is_final
    places = tf.cumsum(1 - tf.cast(ends_syllable, tf.int32), axis=1) - 1
    return Sequences(syllables, counts, sequences.scores, tf.ones(tf.shape(syllables))), places


def spell(model: model_directory.ModelDirectory, file: str, ids: tf.Tensor) -> tf.Tensor:
    """Looks up ids (int32, any shape) in a vocabulary file of the model; returns strings, "" for id -1."""
    table = _table(model, file, tf.int64, tf.string, "")
    return table.lookup(tf.cast(ids, tf.int64))


def find_ids(model: model_directory.ModelDirectory, file: str, strings: tf.Tensor) -> tf.Tensor:
    """Looks up strings in a vocabulary file of the model; returns int32 ids, or unknown_id if not found."""
    table = _table(model, file, tf.string, tf.int64, vocabulary.Vocabulary.unknown_id)
    return tf.cast(table.lookup(strings), tf.int32)


def forget_tables() -> None:
    """Clears the default graph's collection of lookup tables, which would prevent saving the graph."""
    tf.compat.v1.get_default_graph().clear_collection(_TABLES)


def _table(model, file, key_type, value_type, default) -> tf.lookup.StaticHashTable:
    """Returns the graph's table that maps a vocabulary file's line numbers to its lines, or vice versa."""
    collection = tf.compat.v1.get_collection_ref(_TABLES)
    if not collection:
        collection.append({})
    tables, path = collection[0], os.path.join(model.path, file)
    if (path, key_type) not in tables:
        index = tf.lookup.TextFileIndex
        indices = {tf.int64: index.LINE_NUMBER, tf.string: index.WHOLE_LINE}
        columns = (key_type, indices[key_type], value_type, indices[value_type])
        lines = tf.lookup.TextFileInitializer(path, *columns)
        tables[path, key_type] = tf.lookup.StaticHashTable(lines, default)
    return tables[path, key_type]
