"""The cascade as a graph: features -> acoustic model -> tokens -> language model -> transcript.

The models exchange token strings, so each keeps its own vocabulary. The language model reads an unknown
syllable as <unk> and copies any other unknown token, such as a letter, to the transcript. It converts every
hypothesis of the acoustic model, and the scores of both models select the best one. A result depends neither
on the other utterances in the batch nor on padding, because values at or beyond an item's length are ignored.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.hotwords import in_graph
from estimator_asr.decoding.search import decoders, token_times
from estimator_asr.experiment import checkpoints, model_directory
from estimator_asr.exporting.saved_model import model_pairs, proposals, ranking
from estimator_asr.models import layers, whisper_decoder
from estimator_asr.models.tasks import task, tasks
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder.data import dataset_info, vocabulary


def transcribe(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
    hotwords: Optional[tf.Tensor] = None,
) -> dict[str, tf.Tensor]:
    """Builds the cascade; `restore` loads its variables.

    Args:
        acoustic, language: the models; if `language` is None, transcripts consist of tokens.
        fbank: float32 [batch, num_frames, num_bins].
        num_frames: int32 [batch]; an utterance with 0 frames gets an empty transcript.
        hotwords: hotwords for all utterances, string [num_hotwords], in in_graph.parse's format; or None.

    Returns:
        The outputs of every audio signature.

        [batch]: transcript (string), pinyin (string, tokens separated by spaces), greedy_pinyin (string, the
        tokens on CTC's best path, without language and n-gram models), acoustic_score (float32, log
        probability of the tokens), language_score (float32, log probability of the characters given the
        tokens, plus the score from a character n-gram model, if any; 0 if there is no language model),
        confidence (float32, mean over the characters; 0 if there are none).

        [batch, num_characters], padded with "" and 0: characters.character and characters.pinyin (string),
        characters.start and characters.end (float32, seconds), characters.confidence (float32, probability
        that both character and pinyin are right).

        [batch, num_best], best first: n_best.transcript (string), n_best.score (float32). If an
        utterance has fewer transcripts, its scores are padded with the lowest float32.
    """
    hypotheses = proposals.find_hypotheses(acoustic, language, fbank, num_frames, hotwords)
    return write(acoustic, language, *hypotheses)


class Candidates(NamedTuple):
    """The hypotheses from which the best one is chosen; each of the batch x num_best hypotheses has a row."""

    ids: tf.Tensor  # int32 [rows, max_tokens]
    tokens: sequences.Sequences
    syllables: sequences.Sequences  # the tokens, or the syllables into which initials and finals were joined
    places: Optional[tf.Tensor]  # index of each token's syllable; None if tokens were not joined
    units: sequences.Sequences  # characters of the transcript; tokens if there is no language model
    texts: tf.Tensor  # string [batch, num_best]
    scores: tf.Tensor  # search scores, float32 [batch, num_best]; -inf for missing or repeated hypotheses
    language_scores: tf.Tensor  # float32 [batch, num_best]
    whisper_scores: tf.Tensor  # float32 [batch, num_best]; 0 if Whisper's decoder is not used


def write(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    recognition: task.Recognition,
    hotwords: Optional[in_graph.Hotwords] = None,
    proposed: Optional[proposals.Proposed] = None,
) -> dict[str, tf.Tensor]:
    """Returns the outputs of `transcribe` for the acoustic model's hypotheses and Whisper's proposals."""
    candidates = list_candidates(acoustic, language, recognition, hotwords, proposed)
    decode = acoustic.decode
    language_weight = decode.whisper_language_weight if proposed else decode.language_weight
    rescored = candidates.scores + language_weight * candidates.language_scores
    ranked = ranking.rank(rescored + decode.whisper_weight * candidates.whisper_scores, candidates.texts)
    labels = (tf.gather(rows, ranked.rows) for rows in (candidates.ids, candidates.tokens.num_strings))
    times = token_times.align(recognition.log_probs, recognition.num_frames, *labels)
    greedy = _join_best_path(acoustic, recognition)
    return {**_describe(acoustic, candidates, ranked, times), "greedy_pinyin": greedy}


def write_stream(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    recognition: task.Recognition,
    times: token_times.TokenTimes,
) -> dict[str, tf.Tensor]:
    """Returns the outputs of `transcribe`, except greedy_pinyin, for hypotheses with known token times.

    The fields of `times` have shape [batch, num_best, max_tokens].
    """
    candidates = list_candidates(acoustic, language, recognition)
    rescored = candidates.scores + acoustic.decode.language_weight * candidates.language_scores
    ranked = ranking.rank(rescored, candidates.texts)
    times = token_times.TokenTimes(*(tf.gather(_flatten(values), ranked.rows) for values in times))
    return _describe(acoustic, candidates, ranked, times)


def _describe(acoustic, candidates, ranked, times):
    tokens, syllables, units = (
        sequence.take(ranked.rows) for sequence in (candidates.tokens, candidates.syllables, candidates.units)
    )
    if candidates.places is not None:
        times = ranking.merge(times, tokens.num_strings, tf.gather(candidates.places, ranked.rows))
    return {
        **ranking.describe(units, syllables, times, acoustic.decode, acoustic.config.output_seconds),
        "transcript": ranked.transcripts[:, 0],
        "pinyin": sequences.join(tokens, "syllable"),
        "acoustic_score": tokens.scores,
        "language_score": units.scores,
        "n_best.transcript": ranked.transcripts,
        "n_best.score": ranked.scores,
    }


def list_candidates(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    recognition: task.Recognition,
    hotwords: Optional[in_graph.Hotwords] = None,
    proposed: Optional[proposals.Proposed] = None,
) -> Candidates:
    """Converts every hypothesis to text; takes the same arguments as `write`."""
    n_best = proposed.n_best if proposed else recognition.n_best
    shape, ids = tf.shape(n_best.scores), _flatten(n_best.ids)
    tokens = sequences.Sequences(
        sequences.spell(acoustic, dataset_info.TOKENS_FILE, ids),
        tf.reshape(n_best.num_tokens, [-1]),
        tf.reshape(n_best.acoustic_scores, [-1]),
        tf.ones(tf.shape(ids)),
    )
    syllables, places = tokens, None
    if language and acoustic.config.token_type == "initial_final":
        syllables, places = sequences.join_initials(tokens)
    if language:
        fixed = proposed and _flatten(proposed.characters)
        units = convert(language, syllables.strings, syllables.num_strings, fixed)
    else:
        units = syllables._replace(scores=tf.zeros_like(syllables.scores))
    unbiased = units
    if language and hotwords:
        units = in_graph.write(hotwords, units, ids)
    texts = sequences.join(units, "character" if language else acoustic.config.token_type)
    texts, scores = tf.reshape(texts, shape), n_best.scores
    whisper_scores = tf.zeros(shape)
    if proposed:
        scores = proposals.drop_repeated(scores, texts, tf.shape(recognition.n_best.scores)[1])
        # Whisper scores texts before hotwords are written into them: hotwords are rewarded by boosts alone.
        whisper_scores = proposals.score(proposed, acoustic.whisper, unbiased.strings)
    language_scores = tf.reshape(units.scores, shape)
    return Candidates(ids, tokens, syllables, places, units, texts, scores, language_scores, whisper_scores)


def _join_best_path(acoustic: model_directory.ModelDirectory, recognition: task.Recognition) -> tf.Tensor:
    ids, _ = decoders.best_path(recognition.log_probs, recognition.num_frames)
    strings = sequences.spell(acoustic, dataset_info.TOKENS_FILE, ids)  # "" after the last token
    return tf.strings.strip(tf.strings.reduce_join(strings, axis=1, separator=" "))


def _flatten(ids: tf.Tensor) -> tf.Tensor:
    return tf.reshape(ids, [tf.shape(ids)[0] * tf.shape(ids)[1], tf.shape(ids)[2]])


def recognise(model: model_directory.ModelDirectory, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the outputs of `transcribe` for an acoustic model, or `transcript` for a language model.

    For a punctuation model, returns `mark_ids`, string [batch], with one digit per character. `features`
    contains the features listed in TaskSpec.features, whose sequences may be empty.
    """
    if model.config.spec.reads_audio:
        return transcribe(model, None, features["fbank"], features["num_frames"])
    if model.config.spec.writes_marks:
        ids = tf.maximum(tasks.for_model(model).recognise(features).ids, 0)
        return {"mark_ids": tf.strings.reduce_join(tf.strings.as_string(ids), axis=1)}
    return {"transcript": sequences.join(_convert_ids(model, features), "character")}


def convert(
    model: model_directory.ModelDirectory,
    tokens: tf.Tensor,
    num_tokens: tf.Tensor,
    given: Optional[tf.Tensor] = None,
) -> sequences.Sequences:
    """Returns the character that the language model writes for each token.

    `tokens` is string [rows, max_tokens]; tokens at or beyond num_tokens (int32 [rows]) are ignored. An
    unknown token that is not a syllable, such as a letter, is copied, in lower case if tokens are toneless.
    `given`, if set, has the shape of `tokens`; any string other than "" replaces the character and is scored.
    """
    ids = sequences.find_ids(model, dataset_info.TOKENS_FILE, tokens)
    converted = _convert_ids(model, {"token_ids": ids, "num_tokens": num_tokens}, given)
    is_foreign = tf.equal(ids, vocabulary.Vocabulary.unknown_id)
    is_foreign &= ~tf.strings.regex_full_match(tokens, model_pairs.SYLLABLES[model.config.token_type])
    if model.config.token_type == "toneless":  # tokens are upper-case letters or lower-case syllables
        tokens = tf.strings.lower(tokens, "utf-8")
    return converted._replace(
        strings=tf.where(is_foreign, tokens, converted.strings),
        probs=tf.where(is_foreign, 1.0, converted.probs),
    )


def restore(session: tf.compat.v1.Session, model: model_directory.ModelDirectory, checkpoint: str) -> None:
    """Restores all of a model's variables, which are in the scope of the model's task, from a checkpoint."""
    scope = f"{model.config.spec.name}/"
    variables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, scope)
    checkpoints.check_variables(checkpoint, model, variables)
    if variables:  # a graph that contains only the search has no variables
        tf.compat.v1.train.Saver(variables).restore(session, checkpoint)
    if model.whisper is not None:
        encoder_weights.assign(session, whisper_decoder.SCOPE, model.whisper.weights)


def _convert_ids(
    model: model_directory.ModelDirectory, features: dict[str, tf.Tensor], fixed: Optional[tf.Tensor] = None
) -> sequences.Sequences:
    features = {**features, "token_ids": layers.at_least_one(features["token_ids"])}
    writer = tasks.for_model(model)
    outputs = writer.build(features)
    best = writer.decode(outputs, features)
    strings = sequences.spell(model, dataset_info.CHARACTERS_FILE, best.ids)
    if fixed is None:
        return sequences.Sequences(strings, best.num_ids, best.scores, best.character_probs)
    fixed = layers.at_least_one(fixed)
    is_fixed = tf.not_equal(fixed, "")
    ids = tf.where(is_fixed, sequences.find_ids(model, dataset_info.CHARACTERS_FILE, fixed), best.ids)
    scores, probs = writer.score(outputs, features, ids)
    return sequences.Sequences(
        tf.where(is_fixed, fixed, strings),
        best.num_ids,
        tf.where(tf.reduce_any(is_fixed, axis=1), scores, best.scores),
        tf.where(is_fixed, probs, best.character_probs),
    )
