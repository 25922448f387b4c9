"""Hotwords as an input of the graph: strings to phrases of tokens, and their characters in the transcript.

    神雕侠侣                              its pinyin is that of the hanzi, one by one
    神雕侠侣 shen2 diao1 xia2 lv3         one syllable for each character
    神雕侠侣 shen2 diao1 xia2 lv3 2.5     the boost is last, with or without pinyin
    A4 a 4                                no boost: the syllable of the digit

hotword_list writes the second and third form. The graph has the pinyin of each hanzi, for requests in the
first one. Syllables of one hotword that the acoustic model lacks disable it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import tensorflow as tf

from estimator_asr.experiment import model_directory
from estimator_asr.hotwords import hotword_list
from estimator_asr.models.decoding import phrases as phrases_lib
from estimator_asr.tasks import sequences
from tfrecord_builder.data import dataset_info

_HANZI = range(0x4E00, 0xA000)  # CJK unified ideographs
_NUMBER = r"[0-9]+(\.[0-9]+)?|\.[0-9]+"
_HIGHEST_LOG_PROB = -1e-6  # so that log odds are at most 14
# A word whose syllables were heard is written against higher odds than its boost: language models are surest
# of frequent words, and hotwords are rare ones. Of 659 that were spoken 38 more are written, and 2 more where
# they were not (docs/results.md).
_HEARD = 6.0


class Hotwords(NamedTuple):
    """Parsed hotwords."""

    characters: tf.Tensor  # string [num_hotwords, max_length], "" beyond the characters
    phrases: phrases_lib.Phrases  # a token for each character


def is_possible(acoustic: model_directory.ModelDirectory) -> bool:
    """True for a model that writes syllables, one for each hanzi, and searches for them with a beam."""
    return acoustic.config.token_type in hotword_list.TOKEN_TYPES and acoustic.decode.decoding == "beam"


def parse(acoustic: model_directory.ModelDirectory, hotwords: tf.Tensor) -> Hotwords:
    """Parses hotwords, string [num_hotwords]; empty ones are phrases without tokens.

    The step fails if a hotword has more or fewer syllables than characters; names it.
    """
    words = tf.strings.split(hotwords)
    counts = tf.cast(words.row_lengths(), tf.int32)
    words = tf.pad(words.to_tensor(), [[0, 0], [0, 1]])  # one column at least
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
    """Returns what is written with the characters of each hotword where its tokens stand.

    What is written stays where its log odds are more than 6 higher than the boost of the hotword.

    Args:
        hotwords: parsed.
        written: a character for each token.
        token_ids: int32 [rows, max_tokens].
    """
    length = tf.shape(token_ids)[1]
    strings, probs = written.strings[:, :length], written.probs[:, :length]
    matches = phrases_lib.match(hotwords.phrases, token_ids, written.num_strings)
    numbers = tf.maximum(matches.phrases, 0)
    indices = tf.stack([numbers, matches.offsets], axis=2)
    characters = tf.gather_nd(tf.pad(hotwords.characters, [[0, 1], [0, 1]]), indices)
    boosts = tf.gather(tf.pad(hotwords.phrases.boosts, [[0, 1]]), numbers)
    is_other = tf.not_equal(*(tf.strings.lower(each, "utf-8") for each in (strings, characters)))
    has_other = _sum(tf.cast(is_other, tf.float32), matches.offsets) > 0
    log_probs = _sum(tf.where(is_other, tf.math.log(probs), 0.0), matches.offsets)
    log_probs = tf.minimum(log_probs, _HIGHEST_LOG_PROB)
    log_odds = log_probs - tf.math.log(-tf.math.expm1(log_probs))
    is_replaced = (matches.phrases >= 0) & (~has_other | (log_odds <= boosts + _HEARD))
    return written._replace(
        strings=tf.where(is_replaced, characters, strings),
        probs=tf.where(is_replaced, 1.0, probs),  # given the tokens, there is no doubt
    )


def _sum(values: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
    """Returns the sum over the match that each token is in, float32 [rows, max_tokens]."""
    size = tf.size(values)
    starts = tf.reshape(tf.range(size), tf.shape(values)) - offsets
    return tf.gather(tf.math.unsorted_segment_sum(values, starts, size), starts)


def _check(hotwords, characters, syllables) -> tf.Operation:
    counts = characters.row_lengths(), syllables.row_lengths()
    is_wrong = (counts[1] > 0) & tf.not_equal(*counts)
    wrong = [tf.boolean_mask(each, is_wrong)[:1] for each in (hotwords, *map(tf.strings.as_string, counts))]
    got = ["hotwords: ", wrong[0], " has ", wrong[1], " characters and ", wrong[2], " syllables"]
    expected = ", expected one syllable for each character; fix it"
    message = tf.strings.join(["E_HOTWORD_SYLLABLES: ", *got, expected])
    return tf.debugging.Assert(tf.logical_not(tf.reduce_any(is_wrong)), [message])


def _choose_syllables(characters: tf.RaggedTensor, syllables: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns the syllables of each hotword, without any those of its hanzi; a letter is its capital."""
    hanzi = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(*_read_hanzi()), "")
    capitals, read = tf.strings.upper(characters.flat_values), hanzi.lookup(characters.flat_values)
    read = tf.where(tf.equal(read, ""), capitals, read)
    has_syllables = tf.repeat(syllables.row_lengths() > 0, characters.row_lengths())
    places = tf.maximum(tf.cumsum(tf.cast(has_syllables, tf.int32)) - 1, 0)  # in all of them
    written = tf.gather(tf.pad(syllables.flat_values, [[0, 1]]), places)
    written = tf.where(tf.equal(tf.strings.upper(written), capitals), capitals, written)
    return characters.with_flat_values(tf.where(has_syllables, written, read))


@functools.lru_cache(maxsize=1)
def _read_hanzi() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns all hanzi and the most frequent reading of each."""
    from tfrecord_builder.labels import pinyin  # takes most of a second

    readings = {chr(code): pinyin.dictionary_readings(chr(code)) for code in _HANZI}
    pairs = [(hanzi, each[0]) for hanzi, each in readings.items() if each]
    return tuple(zip(*pairs))


def _find_ids(acoustic: model_directory.ModelDirectory, tokens: tf.Tensor) -> tf.Tensor:
    """Returns int32 [num_hotwords, max_length]: -1 beyond the tokens, and where one of them is unknown."""
    spelled = tf.strings.lower(tokens, "utf-8")
    if acoustic.config.token_type == "toneless":  # as syllables.without_tone spells them
        spelled = tf.strings.regex_replace(spelled, "([^1-5])[1-5]$", r"\1")
        spelled = tf.where(tf.strings.regex_full_match(tokens, "[A-Z]"), tokens, spelled)
    ids = sequences.find_ids(acoustic, dataset_info.TOKENS_FILE, spelled)
    is_token = tf.not_equal(spelled, "")
    is_unknown = is_token & tf.equal(ids, acoustic.tokens.unknown_id)
    is_usable = ~tf.reduce_any(is_unknown, axis=1, keepdims=True)
    return tf.where(is_token & is_usable, ids, -1)
