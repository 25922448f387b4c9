"""Adds proposals from Whisper's decoder to the search's hypotheses, and scores all of them.

A proposal is cut to its most probable prefix under CTC, and each character gets its most probable reading
under CTC. The result is a hypothesis like those from the search, but its characters are already known.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.decoding.hotwords import in_graph
from estimator_asr.decoding.search import hypotheses, pronunciations
from estimator_asr.experiment import model_directory
from estimator_asr.models import byte_pairs, layers, whisper_decoder
from estimator_asr.models.tasks import task, tasks

NUM_PROPOSALS = 5  # Whisper's own beam size (Radford et al. 2022, section 4.5)
_UNSPELLED = -10.0  # log probability of a character that the decoder's tokens cannot spell


class Proposed(NamedTuple):
    """The search's hypotheses, followed by Whisper's proposals."""

    memory: whisper_decoder.Memory
    n_best: hypotheses.Hypotheses
    characters: tf.Tensor  # string [batch, num_best, max_tokens]; "" for hypotheses of the search


class TranscriptParts(NamedTuple):
    """Hypotheses from which cascade.write makes transcripts."""

    recognition: task.Recognition  # output of the acoustic model's search
    hotwords: Optional[in_graph.Hotwords] = None
    proposed: Optional[Proposed] = None


def find_hypotheses(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
    hotwords: Optional[tf.Tensor] = None,
) -> TranscriptParts:
    """Runs the search; if it is a beam search with whisper_weight and a language model, adds proposals."""
    fbank = layers.at_least_one(fbank)
    features, parsed, proposed = {"fbank": fbank, "num_frames": num_frames}, None, None
    if hotwords is not None:
        parsed = in_graph.parse(acoustic, hotwords)
        features |= {"hotword_ids": parsed.phrases.token_ids, "hotword_boosts": parsed.phrases.boosts}
    recognition = tasks.for_model(acoustic).recognise(features)
    if language and acoustic.decode.whisper_weight and acoustic.decode.decoding == "beam":
        proposed = _propose(acoustic, recognition, fbank, num_frames)
    return TranscriptParts(recognition, parsed, proposed)


def _propose(acoustic, recognition, fbank, num_frames) -> Proposed:
    decoder, n_best = acoustic.whisper, recognition.n_best
    # Each frame's last `units` features are the outputs of the encoder's last block.
    units = acoustic.config.frontend.encoder.encoder.units
    memory = whisper_decoder.attend_to(decoder, fbank[..., -units:], num_frames)
    # The limit keeps Whisper from continuing after the end of speech. Rare characters take 2 or 3 tokens.
    limits = 4 + 2 * tf.reduce_max(n_best.num_tokens, axis=1)
    proposed = whisper_decoder.propose(decoder, memory, limits, NUM_PROPOSALS)
    strings, ids, counts = _spell(decoder, proposed)
    readings = tf.gather(decoder.readings, tf.maximum(ids, 0))
    prefixes = pronunciations.find_best_prefixes(
        recognition.log_probs, recognition.num_frames, readings, counts
    )
    lengths = prefixes.num_characters
    added = tasks.for_model(acoustic).score_beside_ctc(recognition, prefixes.ids, lengths)
    proposals = hypotheses.Hypotheses(prefixes.ids, lengths, prefixes.scores + added, prefixes.scores)
    is_in_prefix = tf.sequence_mask(lengths, tf.shape(ids)[2])
    strings = tf.where(is_in_prefix, tf.strings.lower(strings, "utf-8"), "")
    characters = hypotheses.join(tf.fill(tf.shape(n_best.ids), ""), strings, "")
    return Proposed(memory, n_best.joined(proposals), characters)


def _spell(decoder, token_ids):
    """Converts token sequences to characters.

    Returns:
        The characters, as strings and as int32 ids (-1 if incomplete or unknown), both [batch, width,
        max_characters], and the number of characters before the first id of -1, int32 [batch, width].
    """
    texts = tf.constant([b"", *decoder.token_texts.tolist()])
    joined = tf.strings.reduce_join(tf.gather(texts, token_ids + 1), axis=-1)
    strings = tf.strings.unicode_split(tf.reshape(joined, [-1]), "UTF-8").to_tensor("")
    strings = tf.reshape(strings, tf.concat([tf.shape(joined), [-1]], axis=0))
    strings = tf.pad(strings, [[0, 0], [0, 0], [0, 1]])  # ensures that there is at least one column
    ids = _find(decoder, strings)
    return strings, ids, tf.reduce_sum(tf.math.cumprod(tf.cast(ids >= 0, tf.int32), axis=2), axis=2)


def _find(decoder, strings):
    """Returns the ids of characters, int32 with the shape of `strings`; -1 for characters without an id."""
    keys = tf.constant(decoder.characters.tolist()), tf.range(len(decoder.characters))
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(*keys), -1)
    return table.lookup(tf.strings.upper(strings, "utf-8"))


def score(proposed: Proposed, decoder: whisper_decoder.DecoderArrays, characters: tf.Tensor) -> tf.Tensor:
    """Returns the log probability of each text under Whisper's decoder, float32 [batch, num_best].

    `characters` is string [batch x num_best, max_characters], padded with "".
    """
    ids = _find(decoder, characters)
    tokens, counts = byte_pairs.encode(decoder, ids)
    shape = tf.shape(proposed.n_best.scores)
    tokens = tf.reshape(tokens, tf.concat([shape, [-1]], axis=0))
    scores = whisper_decoder.score(decoder, proposed.memory, tokens, tf.reshape(counts, shape))
    is_unspelled = tf.not_equal(characters, "") & (ids < 0)
    num_unspelled = tf.reduce_sum(tf.cast(is_unspelled, tf.float32), axis=1)
    return scores + _UNSPELLED * tf.reshape(num_unspelled, shape)


def drop_repeated(scores: tf.Tensor, texts: tf.Tensor, num_searched: tf.Tensor) -> tf.Tensor:
    """Returns the scores, float32 [batch, num_best], with -inf for a proposal that repeats an earlier text.

    `texts` is string [batch, num_best]; the columns from num_searched on are proposals.
    """
    place = tf.range(tf.shape(texts)[1])
    is_same = tf.equal(texts[:, :, None], texts[:, None]) & (place < place[:, None])
    return tf.where(tf.reduce_any(is_same, axis=2) & (place >= num_searched), -float("inf"), scores)
