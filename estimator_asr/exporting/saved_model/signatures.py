"""Builds an export's signatures: one graph that reads WAV files, waveforms, features or pinyin.

    serving_default   wav_bytes string [batch]
                          | decode                                    (wav_bytes is a placeholder)
    waveform          waveform float32 [batch, num_samples], num_samples int32 [batch]
                          | check, frontend, frozen encoder     (placeholders whose default is the op above)
    features          fbank float32 [batch, num_frames, num_bins], num_frames int32 [batch]     (likewise)
                          | check, cascade
                      outputs

    align, log_probs  waveform and tokens, or a waveform, see alignment.py
    punctuate         characters and pauses, see marking.py; only with a punctuation model
    language          pinyin string [batch]; only with a language model
    stream*           pieces of audio, see streams.py; only with a streaming model

A signature skips the operations above its inputs. If the model supports hotwords, each of the first three
signatures has a twin (for example, waveform_hotwords) with one more input: hotwords, string [num_hotwords],
which apply to all utterances in a batch. The graph contains only core TensorFlow operations, so that an
unmodified server can load it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.decoding.hotwords import in_graph
from estimator_asr.experiment import model_directory
from estimator_asr.exporting.saved_model import (
    alignment,
    cascade,
    item_checks,
    marking,
    proposals,
    recogniser,
    statuses,
    streams,
    wav,
)
from estimator_asr.models import frozen_encoder, layers
from tfrecord_builder.audio import audio_files, frontend

SIGNATURE_INPUTS = {
    "serving_default": ("wav_bytes",),
    "waveform": ("waveform", "num_samples"),
    "features": ("fbank", "num_frames"),
}
MAX_SYLLABLES = 10 * statuses.MAX_SECONDS  # speech has at most 10 syllables per second
_SPACES = r"[\pZ\x{85}\x{FEFF}]+"  # all Unicode spaces, and the byte order mark


class Signature(NamedTuple):
    """Input and output tensors of a signature, by name."""

    inputs: dict[str, tf.Tensor]
    outputs: dict[str, tf.Tensor]


def build(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    punctuation: Optional[model_directory.ModelDirectory] = None,
) -> dict[str, Signature]:
    """Builds the graph; `cascade.restore` loads its variables.

    Returns:
        The signatures by name. Audio signatures have the outputs of cascade.transcribe, those of
        marking.punctuate if there is a punctuation model, and `status`, string [batch] (see statuses.py).
        A rejected item has empty outputs and does not affect other items. An empty batch has empty outputs.
        If there is a language model, write_pinyin builds `language`.
    """
    acoustic, language = _share_ngram(acoustic), language and _share_ngram(language)
    tensors, features, status = _build_audio_inputs(acoustic.config.frontend)
    hotwords = tensors[recogniser.HOTWORDS] if in_graph.is_possible(acoustic) else None
    rows = [layers.at_least_one(tensor, axis=0) for tensor in (features.values, features.lengths)]
    hypotheses = proposals.find_hypotheses(acoustic, language, *rows, hotwords)
    outputs = cascade.write(acoustic, language, *hypotheses)
    outputs = marking.punctuate(punctuation, outputs)
    outputs = item_checks.clear(outputs, features.status)
    waveforms = {key: tensors[key] for key in SIGNATURE_INPUTS["waveform"]}
    aligned = alignment.build(acoustic, hypotheses.recognition, waveforms, status["waveform"])
    signatures = {name: Signature(*pair) for name, pair in aligned.items()}
    for name, inputs in SIGNATURE_INPUTS.items():
        values = {**outputs, "status": status[name]}
        signatures[name] = Signature({key: tensors[key] for key in inputs}, values)
        if hotwords is not None:
            twin = {**signatures[name].inputs, recogniser.HOTWORDS: hotwords}
            signatures[f"{name}_{recogniser.HOTWORDS}"] = Signature(twin, values)
    if language:
        strings = tf.compat.v1.placeholder(tf.string, [None], "pinyin")
        signatures["language"] = Signature({"pinyin": strings}, write_pinyin(language, strings))
    if punctuation:
        signatures[recogniser.PUNCTUATE] = Signature(*marking.build(punctuation))
    if streams.can_stream(acoustic):
        signatures |= {name: Signature(*pair) for name, pair in streams.build(acoustic, language).items()}
    sequences.forget_tables()
    return signatures


def write_pinyin(language: model_directory.ModelDirectory, pinyin: tf.Tensor) -> dict[str, tf.Tensor]:
    """Builds the language model alone, sharing its variables with the cascade.

    Args:
        language: the model.
        pinyin: string [batch], syllables separated by spaces of any kind. A syllable that the model does not
            know is read as <unk>; any other unknown token is copied to the transcript.

    Returns:
        transcript (string), language_score (float32, log probability) and status (string), all [batch]. The
        status is malformed if the pinyin is not UTF-8, empty if it has no syllables, and too_long if it has
        more than MAX_SYLLABLES.
    """
    spaced = tf.strings.regex_replace(pinyin, _SPACES, " ")
    tokens, status = item_checks.split_texts(spaced, MAX_SYLLABLES)
    counts = tf.cast(tokens.row_lengths(), tf.int32)
    with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE):
        characters = cascade.convert(language, tokens.to_tensor(), counts)
    outputs = {"transcript": sequences.join(characters, "character"), "language_score": characters.scores}
    return {**item_checks.clear(outputs, status), "status": status}


def _share_ngram(model: model_directory.ModelDirectory) -> model_directory.ModelDirectory:
    """Returns the model with its n-gram arrays converted to tensors, which all signatures share."""
    if model.ngram is None:
        return model
    tensors = {name: tf.constant(value) for name, value in vars(model.ngram).items() if name != "order"}
    return dataclasses.replace(model, ngram=dataclasses.replace(model.ngram, **tensors))


def _build_audio_inputs(
    config: frontend.FrontendConfig,
) -> tuple[dict[str, tf.Tensor], item_checks.Items, dict[str, tf.Tensor]]:
    """Builds the part of the graph that converts WAV bytes to features.

    Returns:
        The tensors that can be fed, by input name; the features; and the status for each signature.
    """
    default, limit = tf.compat.v1.placeholder_with_default, statuses.find_max_seconds(config)
    wav_bytes = tf.compat.v1.placeholder(tf.string, [None], "wav_bytes")
    waveform, num_samples, wav_status = wav.decode_batch(wav_bytes, config.sample_rate, limit)
    waveform = default(waveform, [None, None], "waveform")
    num_samples = default(num_samples, [None], "num_samples")
    base = dataclasses.replace(config, encoder=None)
    waveforms = item_checks.check_waveforms(waveform, num_samples, base, limit)
    fbank, num_frames = _extract_features(waveforms, config, base)
    fbank = default(fbank, [None, None, config.num_bins], "fbank")
    num_frames = default(num_frames, [None], "num_frames")
    features = item_checks.check_features(fbank, num_frames, config, limit)
    columns = (wav_status, waveforms.status, features.status)
    tensors = {
        "wav_bytes": wav_bytes,
        "waveform": waveform,
        "num_samples": num_samples,
        "fbank": fbank,
        "num_frames": num_frames,
        recogniser.HOTWORDS: default(tf.constant([], tf.string), [None], recogniser.HOTWORDS),
    }
    status = {name: item_checks.first_problem(*columns[i:]) for i, name in enumerate(SIGNATURE_INPUTS)}
    is_unfinished = wav.read_headers(wav_bytes, audio_files.SAMPLE_RATES_HZ).is_unfinished
    remark = tf.where(is_unfinished, statuses.UNFINISHED, statuses.OK)
    status["serving_default"] = item_checks.first_problem(status["serving_default"], remark)
    return tensors, features, status


def _extract_features(
    waveforms: item_checks.Items, config: frontend.FrontendConfig, base: frontend.FrontendConfig
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns fbank and num_frames for the signature `features`; `base` is `config` without the encoder."""
    num_frames = frontend.num_frames(waveforms.lengths, base)
    fbank = frontend.extract(waveforms.values, config, waveforms.lengths)
    if config.encoder is None:
        return fbank, num_frames
    rows = [layers.at_least_one(tensor, axis=0) for tensor in (layers.at_least_one(fbank), num_frames)]
    vectors, num_vectors = frozen_encoder.build(config.encoder, *rows)
    num_items = tf.size(num_frames)
    return tf.cast(vectors[:num_items], tf.float32), num_vectors[:num_items]
