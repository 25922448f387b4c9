"""Hotwords in the graph: parses input strings into phrases of tokens, and writes them into transcripts.

    神雕侠侣                              the pinyin is looked up, hanzi by hanzi
    神雕侠侣 shen2 diao1 xia2 lv3         one syllable for each character
    神雕侠侣 shen2 diao1 xia2 lv3 2.5     the boost comes last, with or without pinyin
    A4 a 4                                the last 4 is the syllable of the digit, not a boost

hotword_list writes the second and third forms. For requests that use the first form, the graph contains the
pinyin of each hanzi. A hotword with a syllable that the acoustic model lacks is ignored.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.hotwords import hotword_list
from estimator_asr.decoding.search import phrases as phrases_lib
from estimator_asr.experiment import model_directory
from tfrecord_builder.data import dataset_info

_HANZI = range(0x4E00, 0xA000)  # CJK unified ideographs
_NUMBER = r"[0-9]+(\.[0-9]+)?|\.[0-9]+"
_HIGHEST_LOG_PROB = -1e-6  # limits log odds to 14
# Added to the boost of a hotword whose syllables were recognised, so that the hotword can replace characters
# whose log odds exceed its boost: language models prefer frequent words, but hotwords are rare. This bonus
# adds 38 of 659 spoken hotwords to transcripts, and 2 that were not spoken (docs/experiments/hotwords.md).
_RECOGNISED_BONUS = 6.0


class Hotwords(NamedTuple):
    """Parsed hotwords."""

    characters: tf.Tensor  # string [num_hotwords, max_length], padded with ""
    phrases: phrases_lib.Phrases  # one token per character


def is_possible(acoustic: model_directory.ModelDirectory) -> bool:
    """Returns True if a model outputs one syllable per hanzi and uses beam search, as hotwords require."""
    return acoustic.config.token_type in hotword_list.TOKEN_TYPES and acoustic.decode.decoding == "beam"


def parse(acoustic: model_directory.ModelDirectory, hotwords: tf.Tensor) -> Hotwords:
    """Parses hotwords, string [num_hotwords]; empty strings become phrases without tokens.

    If a hotword has more or fewer syllables than characters, the session step fails and names that hotword.
    """
    words = tf.strings.split(hotwords)
    counts = tf.cast(words.row_lengths(), tf.int32)
    words = tf.pad(words.to_tensor(), [[0, 0], [0, 1]])  # ensures at least one column
    characters = tf.strings.unicode_split(words[:, 0], "UTF-8")
    last = tf.gather(words, tf.maximum(counts - 1, 0), batch_dims=1)
    is_digit = tf.equal(last, tf.strings.regex_replace(words[:, 0], ".*(.)", r"\1"))
    is_spelled = is_digit & tf.equal(counts - 1, tf.cast(characters.row_lengths(), tf.int32))
    has_boost = tf.strings.regex_full_match(last, _NUMBER) & (counts > 1) & ~is_spelled
    numbers = tf.strings.to_number(tf.where(has_boost, last, "0"))
    boosts = tf.where(has_boost, numbers, hotword_list.DEFAULT_BOOST)
    num_syllables = tf.maximum(counts - 1 - tf.cast(has_boost, tf.int32), 0)
    syllables = tf.RaggedTensor.from_tensor(words[:, 1:], lengths=num_syllables)
    with tf.control_dependencies([_check(hotwords, characters, syllables)]):
        syllables = syllables.with_flat_values(tf.identity(syllables.flat_values))
    token_ids = _find_ids(acoustic, _choose_syllables(characters, syllables).to_tensor())
    return Hotwords(characters.to_tensor(), phrases_lib.Phrases(token_ids, boosts))


def write(hotwords: Hotwords, written: sequences.Sequences, token_ids: tf.Tensor) -> sequences.Sequences:
    """Writes the characters of each hotword into transcripts wherever its tokens were recognised.

    A transcript's characters that differ from the hotword's are kept if their log odds exceed the hotword's
    boost by more than 6. `written` has one character per token; token_ids, int32 [rows, max_tokens], are the
    recognised tokens.
    """
    length = tf.shape(token_ids)[1]
    strings, probs = written.strings[:, :length], written.probs[:, :length]
    matches = phrases_lib.match(hotwords.phrases, token_ids, written.num_strings)
    numbers = tf.maximum(matches.phrases, 0)
    indices = tf.stack([numbers, matches.offsets], axis=2)
    characters = tf.gather_nd(tf.pad(hotwords.characters, [[0, 1], [0, 1]]), indices)
    boosts = tf.gather(tf.pad(hotwords.phrases.boosts, [[0, 1]]), numbers)
    is_other = tf.not_equal(*(tf.strings.lower(text, "utf-8") for text in (strings, characters)))
    has_other = _sum(tf.cast(is_other, tf.float32), matches.offsets) > 0
    log_probs = _sum(tf.where(is_other, tf.math.log(probs), 0.0), matches.offsets)
    log_probs = tf.minimum(log_probs, _HIGHEST_LOG_PROB)
    log_odds = log_probs - tf.math.log(-tf.math.expm1(log_probs))
    is_replaced = (matches.phrases >= 0) & (~has_other | (log_odds <= boosts + _RECOGNISED_BONUS))
    return written._replace(
        strings=tf.where(is_replaced, characters, strings),
        probs=tf.where(is_replaced, 1.0, probs),  # certain, because the tokens match
    )


def _sum(values: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
    """Returns, for each token, the sum of the values in its match, float32 [rows, max_tokens]."""
    size = tf.size(values)
    starts = tf.reshape(tf.range(size), tf.shape(values)) - offsets
    return tf.gather(tf.math.unsorted_segment_sum(values, starts, size), starts)


def _check(hotwords, characters, syllables) -> tf.Operation:
    counts = characters.row_lengths(), syllables.row_lengths()
    is_wrong = (counts[1] > 0) & tf.not_equal(*counts)
    columns = (hotwords, *map(tf.strings.as_string, counts))
    first = [tf.boolean_mask(column, is_wrong)[:1] for column in columns]  # the first invalid hotword
    got = ["E_HOTWORD_SYLLABLES: hotwords: ", first[0], " has ", first[1], " characters and ", first[2]]
    message = tf.strings.join([*got, " syllables, expected one syllable for each character; fix it"])
    return tf.debugging.Assert(tf.logical_not(tf.reduce_any(is_wrong)), [message])


def _choose_syllables(characters: tf.RaggedTensor, syllables: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns each hotword's syllables or, if it has none, its hanzi's readings; letters are upper case."""
    hanzi = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(*_read_hanzi()), "")
    capitals, looked_up = tf.strings.upper(characters.flat_values), hanzi.lookup(characters.flat_values)
    looked_up = tf.where(tf.equal(looked_up, ""), capitals, looked_up)
    has_syllables = tf.repeat(syllables.row_lengths() > 0, characters.row_lengths())
    places = tf.maximum(tf.cumsum(tf.cast(has_syllables, tf.int32)) - 1, 0)  # indices into flat_values
    own_syllables = tf.gather(tf.pad(syllables.flat_values, [[0, 1]]), places)
    is_letter = tf.equal(tf.strings.upper(own_syllables), capitals)
    own_syllables = tf.where(is_letter, capitals, own_syllables)
    return characters.with_flat_values(tf.where(has_syllables, own_syllables, looked_up))


@functools.lru_cache(maxsize=1)
def _read_hanzi() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns all hanzi that have readings, and the most frequent reading of each."""
    from tfrecord_builder.labels import pinyin  # takes most of a second to import

    readings = {chr(code): pinyin.dictionary_readings(chr(code)) for code in _HANZI}
    pairs = [(hanzi, syllables[0]) for hanzi, syllables in readings.items() if syllables]
    return tuple(zip(*pairs))


def _find_ids(acoustic: model_directory.ModelDirectory, tokens: tf.Tensor) -> tf.Tensor:
    """Returns ids, int32 [num_hotwords, max_length], padded with -1; rows with unknown tokens are all -1."""
    spelled = tf.strings.lower(tokens, "utf-8")
    if acoustic.config.token_type == "toneless":  # spells as syllables.without_tone does
        spelled = tf.strings.regex_replace(spelled, "([^1-5])[1-5]$", r"\1")
        spelled = tf.where(tf.strings.regex_full_match(tokens, "[A-Z]"), tokens, spelled)
    ids = sequences.find_ids(acoustic, dataset_info.TOKENS_FILE, spelled)
    is_token = tf.not_equal(spelled, "")
    is_unknown = is_token & tf.equal(ids, acoustic.tokens.unknown_id)
    is_usable = ~tf.reduce_any(is_unknown, axis=1, keepdims=True)
    return tf.where(is_token & is_usable, ids, -1)
