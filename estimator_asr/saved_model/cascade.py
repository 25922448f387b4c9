"""The cascade as a graph: features -> acoustic model -> tokens -> language model -> transcript.

The models pass token strings, so each keeps its own vocabulary; a syllable that the language model does not
know is its <unk>, and any other such token, a letter for instance, is written as it is. The language model
writes every hypothesis of the acoustic model, and both choose the best. A result depends neither on the other
utterances of the batch nor on its padding: everything at or beyond a length is ignored.
"""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr.checkpointing import checkpoints
from estimator_asr.experiment import model_directory
from estimator_asr.models.decoding import token_times
from estimator_asr.saved_model import characters as characters_lib
from estimator_asr.saved_model import hotwords as hotwords_lib
from estimator_asr.saved_model import model_pairs, n_best, sequences
from estimator_asr.tasks import registry, task
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
        hotwords: string [num_hotwords] as hotwords.parse reads them, for all utterances; None: none.

    Returns:
        The outputs of every signature.

        [batch]: transcript (string), pinyin (string, tokens separated by spaces), acoustic_score (float32,
        log probability of the tokens), language_score (float32, of the characters given the tokens, and what
        an n-gram model of characters adds; 0 without a language model), confidence (float32, mean of those of
        the characters; 0 without any).

        [batch, num_characters], "" and 0 beyond the last: characters.character and characters.pinyin
        (string), characters.start and characters.end (float32, seconds), characters.confidence (float32,
        probability that character and pinyin are right).

        [batch, num_best], best first: n_best.transcript (string), n_best.score (float32; the
        lowest number where there are fewer transcripts).
    """
    features = {"fbank": fbank, "num_frames": num_frames}
    if hotwords is None:
        return write(acoustic, language, _recognise(acoustic, features))
    parsed = hotwords_lib.parse(acoustic, hotwords)
    features |= {"hotword_ids": parsed.phrases.token_ids, "hotword_boosts": parsed.phrases.boosts}
    return write(acoustic, language, _recognise(acoustic, features), parsed)


def write(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    found: task.Recognition,
    hotwords: Optional[hotwords_lib.Hotwords] = None,
) -> dict[str, tf.Tensor]:
    """Returns the outputs of `transcribe` for what the acoustic model found."""
    tokens = _list_hypotheses(acoustic, found)
    spoken, places = tokens, None
    if language and acoustic.config.token_type == "initial_final":
        spoken, places = sequences.join_initials(tokens)
    written = convert(language, spoken.strings, spoken.num_strings) if language else _repeat(spoken)
    if language and hotwords:
        written = hotwords_lib.write(hotwords, written, _flatten(found.n_best.ids))
    texts = sequences.join(written, "character" if language else acoustic.config.token_type)
    scores = found.n_best.scores
    rescored = scores + acoustic.decode.language_weight * tf.reshape(written.scores, tf.shape(scores))
    ranking = n_best.rank(rescored, tf.reshape(texts, tf.shape(scores)))
    best, spoken, written = (each.take(ranking.rows) for each in (tokens, spoken, written))
    times = _find_times(found, ranking.rows, places)
    return {
        "transcript": ranking.transcripts[:, 0],
        "pinyin": sequences.join(best, "syllable"),
        "acoustic_score": best.scores,
        "language_score": written.scores,
        **characters_lib.describe(written, spoken, times, acoustic.decode, acoustic.config.output_seconds),
        "n_best.transcript": ranking.transcripts,
        "n_best.score": ranking.scores,
    }


def recognise(model: model_directory.ModelDirectory, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the outputs of one model: those of `transcribe`, or the transcript of a language model.

    `features` are those of TaskSpec.features; all may have length 0.
    """
    if model.config.spec.reads_audio:
        return transcribe(model, None, features["fbank"], features["num_frames"])
    return {"transcript": sequences.join(_convert_ids(model, features), "character")}


def convert(
    model: model_directory.ModelDirectory, tokens: tf.Tensor, num_tokens: tf.Tensor
) -> sequences.Sequences:
    """Returns the characters that the language model writes for tokens, one for one.

    Tokens are string [rows, max_tokens]; those at or beyond num_tokens (int32 [rows]) are ignored. What the
    model lacks and is no syllable, a letter for instance, is written as it is, in small letters if they are
    toneless.
    """
    ids = sequences.find_ids(model, dataset_info.TOKENS_FILE, tokens)
    written = _convert_ids(model, {"token_ids": ids, "num_tokens": num_tokens})
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


def _recognise(model: model_directory.ModelDirectory, features: dict[str, tf.Tensor]) -> task.Recognition:
    key, _ = model.config.spec.features
    return registry.of(model).recognise({**features, key: at_least_one_column(features[key])})


def _convert_ids(
    model: model_directory.ModelDirectory, features: dict[str, tf.Tensor]
) -> sequences.Sequences:
    found = _recognise(model, features)
    strings = sequences.spell(model, dataset_info.CHARACTERS_FILE, found.ids)
    return sequences.Sequences(strings, found.num_ids, found.scores, found.character_probs)


def _list_hypotheses(model: model_directory.ModelDirectory, found: task.Recognition) -> sequences.Sequences:
    """Returns all hypotheses as rows, [batch x num_best]."""
    ids = _flatten(found.n_best.ids)
    strings = sequences.spell(model, dataset_info.TOKENS_FILE, ids)
    counts, scores = (
        tf.reshape(each, [-1]) for each in (found.n_best.num_tokens, found.n_best.acoustic_scores)
    )
    return sequences.Sequences(strings, counts, scores, tf.ones(tf.shape(ids)))


def _flatten(ids: tf.Tensor) -> tf.Tensor:
    """Returns [batch x num_best, max_tokens]."""
    return tf.reshape(ids, [tf.shape(ids)[0] * tf.shape(ids)[1], tf.shape(ids)[2]])


def _repeat(spoken: sequences.Sequences) -> sequences.Sequences:
    """Returns the tokens as what is written, where there is no language model."""
    return spoken._replace(scores=tf.zeros_like(spoken.scores))


def _find_times(
    found: task.Recognition, rows: tf.Tensor, places: Optional[tf.Tensor]
) -> token_times.TokenTimes:
    """Returns when each string of the best hypotheses was spoken, given by their rows."""
    ids = tf.gather(_flatten(found.n_best.ids), rows)
    num_tokens = tf.gather(tf.reshape(found.n_best.num_tokens, [-1]), rows)
    times = token_times.align(found.log_probs, found.num_frames, ids, num_tokens)
    if places is None:
        return times
    return characters_lib.merge(times, num_tokens, tf.gather(places, rows))


def at_least_one_column(batch: tf.Tensor) -> tf.Tensor:
    """Pads axis 1 of [batch, length, ...] from length 0 to 1 with zeros: no layer gets an empty axis."""
    missing = tf.maximum(0, 1 - tf.shape(batch)[1])
    paddings = [[0, 0], [0, missing]] + [[0, 0]] * (batch.shape.rank - 2)
    return tf.pad(batch, paddings, constant_values=tf.zeros([], batch.dtype))
