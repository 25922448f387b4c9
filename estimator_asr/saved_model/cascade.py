"""The cascade as a graph: features -> acoustic model -> tokens -> language model -> transcript.

The models pass token strings, so each keeps its own vocabulary; a syllable that the language model does not
know is its <unk>, and any other such token, a letter for instance, is written as it is. The language model
writes every hypothesis of the acoustic model, and both choose the best. A result depends neither on the other
utterances of the batch nor on its padding: everything at or beyond a length is ignored.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.checkpointing import checkpoints
from estimator_asr.checkpointing.pretrained import encoder_weights
from estimator_asr.experiment import model_directory
from estimator_asr.hotwords import in_graph
from estimator_asr.models import layers, whisper_decoder
from estimator_asr.models.decoding import decoders, token_times
from estimator_asr.saved_model import characters, model_pairs, proposals, ranking
from estimator_asr.tasks import registry, sequences, task
from tfrecord_builder.data import dataset_info
from tfrecord_builder.tokens import vocabulary


def transcribe(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    fbank: tf.Tensor,
    num_frames: tf.Tensor,
    hotwords: Optional[tf.Tensor] = None,
) -> dict[str, tf.Tensor]:
    """Builds the cascade; `restore` fills its variables.

    Args:
        acoustic, language: the models; without a language model transcripts are joined tokens.
        fbank: float32 [batch, num_frames, num_bins].
        num_frames: int32 [batch]; 0 makes an empty transcript.
        hotwords: string [num_hotwords] as in_graph.parse reads them, for all utterances; None: none.

    Returns:
        The outputs of every signature.

        [batch]: transcript (string), pinyin (string, tokens separated by spaces), greedy_pinyin (string, the
        tokens of the best path of CTC, without language and n-gram models), acoustic_score (float32, log
        probability of the tokens), language_score (float32, of the characters given the tokens, and what an
        n-gram model of characters adds; 0 without a language model), confidence (float32, mean of those of
        the characters; 0 without any).

        [batch, num_characters], "" and 0 beyond the last: characters.character and characters.pinyin
        (string), characters.start and characters.end (float32, seconds), characters.confidence (float32,
        probability that character and pinyin are right).

        [batch, num_best], best first: n_best.transcript (string), n_best.score (float32; the
        lowest number where there are fewer transcripts).
    """
    found = proposals.find_hypotheses(acoustic, language, fbank, num_frames, hotwords)
    return write(acoustic, language, *found)


class Candidates(NamedTuple):
    """What is chosen from: the hypotheses are rows, batch x num_best."""

    ids: tf.Tensor  # int32 [rows, max_tokens]
    tokens: sequences.Sequences
    spoken: sequences.Sequences  # tokens, or the syllables that initials and finals make
    places: Optional[tf.Tensor]  # of tokens in syllables; None if they are the same
    written: sequences.Sequences
    texts: tf.Tensor  # string [batch, num_best]
    scores: tf.Tensor  # float32 [batch, num_best], of the search; -inf: there is none
    language_scores: tf.Tensor  # float32 [batch, num_best]
    whisper_scores: tf.Tensor  # float32 [batch, num_best]; 0 without the decoder


def write(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    recognition: task.Recognition,
    hotwords: Optional[in_graph.Hotwords] = None,
    proposed: Optional[proposals.Proposed] = None,
) -> dict[str, tf.Tensor]:
    """Returns the outputs of `transcribe` for the hypotheses of the acoustic model, and what is proposed."""
    listed = list_candidates(acoustic, language, recognition, hotwords, proposed)
    decode = acoustic.decode
    language_weight = decode.whisper_language_weight if proposed else decode.language_weight
    rescored = listed.scores + language_weight * listed.language_scores
    ranked = ranking.rank(rescored + decode.whisper_weight * listed.whisper_scores, listed.texts)
    aligned = (tf.gather(each, ranked.rows) for each in (listed.ids, listed.tokens.num_strings))
    times = token_times.align(recognition.log_probs, recognition.num_frames, *aligned)
    greedy = _join_best_path(acoustic, recognition)
    return {**_describe(acoustic, listed, ranked, times), "greedy_pinyin": greedy}


def write_stream(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    recognition: task.Recognition,
    times: token_times.TokenTimes,
) -> dict[str, tf.Tensor]:
    """Returns the outputs of `transcribe`, but for greedy_pinyin, of hypotheses whose times are known.

    Times are [batch, num_best, max_tokens].
    """
    listed = list_candidates(acoustic, language, recognition)
    ranked = ranking.rank(
        listed.scores + acoustic.decode.language_weight * listed.language_scores, listed.texts
    )
    times = token_times.TokenTimes(*(tf.gather(_flatten(each), ranked.rows) for each in times))
    return _describe(acoustic, listed, ranked, times)


def _describe(acoustic, listed, ranked, times):
    tokens, spoken, written = (
        each.take(ranked.rows) for each in (listed.tokens, listed.spoken, listed.written)
    )
    if listed.places is not None:
        times = characters.merge(times, tokens.num_strings, tf.gather(listed.places, ranked.rows))
    return {
        **characters.describe(written, spoken, times, acoustic.decode, acoustic.config.output_seconds),
        "transcript": ranked.transcripts[:, 0],
        "pinyin": sequences.join(tokens, "syllable"),
        "acoustic_score": tokens.scores,
        "language_score": written.scores,
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
    """Writes every hypothesis; arguments as those of `write`."""
    n_best = proposed.n_best if proposed else recognition.n_best
    shape, ids = tf.shape(n_best.scores), _flatten(n_best.ids)
    tokens = sequences.Sequences(
        sequences.spell(acoustic, dataset_info.TOKENS_FILE, ids),
        tf.reshape(n_best.num_tokens, [-1]),
        tf.reshape(n_best.acoustic_scores, [-1]),
        tf.ones(tf.shape(ids)),
    )
    spoken, places = tokens, None
    if language and acoustic.config.token_type == "initial_final":
        spoken, places = sequences.join_initials(tokens)
    if language:
        given = proposed and _flatten(proposed.characters)
        written = convert(language, spoken.strings, spoken.num_strings, given)
    else:
        written = spoken._replace(scores=tf.zeros_like(spoken.scores))
    heard = written
    if language and hotwords:
        written = in_graph.write(hotwords, written, ids)
    texts = sequences.join(written, "character" if language else acoustic.config.token_type)
    texts, scores = tf.reshape(texts, shape), n_best.scores
    whisper_scores = tf.zeros(shape)
    if proposed:
        scores = proposals.drop_repeated(scores, texts, tf.shape(recognition.n_best.scores)[1])
        whisper_scores = proposals.score(proposed, acoustic.whisper, heard.strings)  # boosts are for hotwords
    language_scores = tf.reshape(written.scores, shape)
    return Candidates(ids, tokens, spoken, places, written, texts, scores, language_scores, whisper_scores)


def _join_best_path(acoustic: model_directory.ModelDirectory, recognition: task.Recognition) -> tf.Tensor:
    ids, _ = decoders.best_path(recognition.log_probs, recognition.num_frames)
    strings = sequences.spell(acoustic, dataset_info.TOKENS_FILE, ids)  # "" beyond the last
    return tf.strings.strip(tf.strings.reduce_join(strings, axis=1, separator=" "))


def _flatten(ids: tf.Tensor) -> tf.Tensor:
    return tf.reshape(ids, [tf.shape(ids)[0] * tf.shape(ids)[1], tf.shape(ids)[2]])


def recognise(model: model_directory.ModelDirectory, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the outputs of one model: those of `transcribe`, or the transcript of a language model.

    `features` are those of TaskSpec.features; all may have length 0.
    """
    if model.config.spec.reads_audio:
        return transcribe(model, None, features["fbank"], features["num_frames"])
    return {"transcript": sequences.join(_convert_ids(model, features), "character")}


def convert(
    model: model_directory.ModelDirectory,
    tokens: tf.Tensor,
    num_tokens: tf.Tensor,
    given: Optional[tf.Tensor] = None,
) -> sequences.Sequences:
    """Returns the characters that the language model writes for tokens, one for one.

    Tokens are string [rows, max_tokens]; those at or beyond num_tokens (int32 [rows]) are ignored. What the
    model lacks and is no syllable, a letter for instance, is written as it is, in small letters if they are
    toneless. Where characters are `given` (as tokens; "": not) these are written, and scored.
    """
    ids = sequences.find_ids(model, dataset_info.TOKENS_FILE, tokens)
    written = _convert_ids(model, {"token_ids": ids, "num_tokens": num_tokens}, given)
    is_foreign = tf.equal(ids, vocabulary.Vocabulary.unknown_id)
    is_foreign &= ~tf.strings.regex_full_match(tokens, model_pairs.SYLLABLES[model.config.token_type])
    if model.config.token_type == "toneless":  # whose letters are capitals
        tokens = tf.strings.lower(tokens, "utf-8")
    return written._replace(
        strings=tf.where(is_foreign, tokens, written.strings), probs=tf.where(is_foreign, 1.0, written.probs)
    )


def restore(session: tf.compat.v1.Session, model: model_directory.ModelDirectory, checkpoint: str) -> None:
    """Restores the variables of one model, all of them under the scope of its task, from a checkpoint."""
    scope = f"{model.config.spec.name}/"
    variables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, scope)
    checkpoints.check_variables(checkpoint, model, variables)
    if variables:  # decoding alone has none
        tf.compat.v1.train.Saver(variables).restore(session, checkpoint)
    if model.whisper is not None:
        encoder_weights.assign(session, whisper_decoder.SCOPE, model.whisper.weights)


def _convert_ids(
    model: model_directory.ModelDirectory, features: dict[str, tf.Tensor], given: Optional[tf.Tensor] = None
) -> sequences.Sequences:
    features = {**features, "token_ids": layers.at_least_one(features["token_ids"])}
    writer = registry.of(model)
    outputs = writer.build(features)
    best = writer.decode(outputs, features)
    strings = sequences.spell(model, dataset_info.CHARACTERS_FILE, best.ids)
    if given is None:
        return sequences.Sequences(strings, best.num_ids, best.scores, best.character_probs)
    given = layers.at_least_one(given)
    is_given = tf.not_equal(given, "")
    ids = tf.where(is_given, sequences.find_ids(model, dataset_info.CHARACTERS_FILE, given), best.ids)
    scores, probs = writer.score(outputs, features, ids)
    return sequences.Sequences(
        tf.where(is_given, given, strings),
        best.num_ids,
        tf.where(tf.reduce_any(is_given, axis=1), scores, best.scores),
        tf.where(is_given, probs, best.character_probs),
    )
