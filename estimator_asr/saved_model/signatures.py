"""The signatures of an export: WAV files, waveforms, features or pinyin, as inputs of one graph.

    serving_default   wav_bytes string [batch]
                          | decode                                    (wav_bytes is a placeholder)
    waveform          waveform float32 [batch, num_samples], num_samples int32 [batch]
                          | check, frontend, frozen encoder     (placeholders whose default is the op above)
    features          fbank float32 [batch, num_frames, num_bins], num_frames int32 [batch]     (likewise)
                          | check, cascade
                      outputs

    language          pinyin string [batch]; only with a language model
    stream*           pieces of audio, see streams.py; only of a model that streams

A signature does not run what is above its inputs. Each of the first three has a twin (waveform_hotwords) with
one more, hotwords string [num_hotwords], which are for all utterances of a batch. Core TensorFlow ops only,
so that a plain server can load them.
"""

from __future__ import annotations

import dataclasses
import types
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.experiment import decoding_files, model_directory
from estimator_asr.hotwords import in_graph
from estimator_asr.models import frozen_encoder, layers
from estimator_asr.saved_model import cascade, item_checks, recogniser, statuses, streams, wav
from estimator_asr.tasks import sequences
from tfrecord_builder.audio import audio_files, frontend

SIGNATURE_INPUTS = {
    "serving_default": ("wav_bytes",),
    "waveform": ("waveform", "num_samples"),
    "features": ("fbank", "num_frames"),
}
MAX_SYLLABLES = 10 * statuses.MAX_SECONDS  # nobody speaks faster
_SPACES = r"[\pZ\x{85}\x{FEFF}]+"  # of Unicode, and the byte order mark


class Signature(NamedTuple):
    """Tensors by name."""

    inputs: dict[str, tf.Tensor]
    outputs: dict[str, tf.Tensor]


def build(
    acoustic: model_directory.ModelDirectory, language: Optional[model_directory.ModelDirectory]
) -> dict[str, Signature]:
    """Builds the graph; `cascade.restore` fills its variables.

    Returns:
        The signatures by name. The outputs of those for audio are those of cascade.transcribe, and `status`
        string [batch], of statuses.py. An item that is not ok is empty and changes no other; a batch of 0
        items has outputs of 0 rows. `language`, where there is a language model, is write_pinyin.
    """
    acoustic, language = _share_ngram(acoustic), language and _share_ngram(language)
    tensors, features, status = _build_audio_inputs(acoustic.config.frontend)
    hotwords = tensors[recogniser.HOTWORDS] if in_graph.is_possible(acoustic) else None
    rows = [layers.at_least_one(each, axis=0) for each in (features.values, features.lengths)]
    outputs = item_checks.clear(cascade.transcribe(acoustic, language, *rows, hotwords), features.status)
    signatures = {}
    for name, inputs in SIGNATURE_INPUTS.items():
        values = {**outputs, "status": status[name]}
        signatures[name] = Signature({each: tensors[each] for each in inputs}, values)
        if hotwords is not None:
            twin = {**signatures[name].inputs, recogniser.HOTWORDS: hotwords}
            signatures[f"{name}_{recogniser.HOTWORDS}"] = Signature(twin, values)
    if language:
        strings = tf.compat.v1.placeholder(tf.string, [None], "pinyin")
        signatures["language"] = Signature({"pinyin": strings}, write_pinyin(language, strings))
    if streams.can_stream(acoustic):
        signatures |= {name: Signature(*pair) for name, pair in streams.build(acoustic, language).items()}
    sequences.forget_tables()
    return signatures


def write_pinyin(language: model_directory.ModelDirectory, pinyin: tf.Tensor) -> dict[str, tf.Tensor]:
    """Builds the language model alone, sharing its variables with the cascade.

    Args:
        language: the model.
        pinyin: string [batch], syllables separated by spaces of any kind; those that the model lacks are its
            <unk>, anything else is written as it is.

    Returns:
        transcript (string), language_score (float32, log probability) and status (string), [batch]: malformed
        if it is not UTF-8, empty without a syllable, too_long above MAX_SYLLABLES.
    """
    spaced = tf.strings.regex_replace(pinyin, _SPACES, " ")
    counts = tf.strings.split(spaced).row_lengths()
    is_text = tf.equal(tf.strings.unicode_transcode(pinyin, "UTF-8", "UTF-8"), pinyin)
    status = tf.where(counts > MAX_SYLLABLES, statuses.TOO_LONG, statuses.OK)
    status = tf.where(tf.equal(counts, 0), statuses.EMPTY, status)
    status = tf.where(is_text, status, statuses.MALFORMED)
    ok = tf.where(tf.equal(status, statuses.OK), spaced, "")
    tokens = tf.strings.split(tf.concat([ok, [""]], 0))  # a row more: no layer gets an empty axis
    counts = tf.cast(tokens.row_lengths(), tf.int32)
    with tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE):
        written = cascade.convert(language, tokens.to_tensor(), counts)
    outputs = {"transcript": sequences.join(written, "character"), "language_score": written.scores}
    return {**item_checks.clear(outputs, status), "status": status}


def _share_ngram(model: model_directory.ModelDirectory) -> model_directory.ModelDirectory:
    """Returns the model with its n-gram model as tensors, which the signatures share."""
    if model.ngram is None:
        return model
    arrays = {name: getattr(model.ngram, name) for name in decoding_files.FIELDS}
    tensors = {name: tf.constant(value) for name, value in arrays.items() if name != "order"}
    return dataclasses.replace(model, ngram=types.SimpleNamespace(**{**arrays, **tensors}))


def _build_audio_inputs(
    config: frontend.FrontendConfig,
) -> tuple[dict[str, tf.Tensor], item_checks.Items, dict[str, tf.Tensor]]:
    """Builds the graph from WAV bytes to features.

    Returns:
        The tensors that can be fed by the names of inputs, the features, and the status of each signature.
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
    """Returns fbank and num_frames of the signature `features`; `base` is the config without an encoder."""
    num_frames = frontend.num_frames(waveforms.lengths, base)
    fbank = frontend.extract(waveforms.values, config, waveforms.lengths)
    if config.encoder is None:
        return fbank, num_frames
    rows = [layers.at_least_one(each, axis=0) for each in (layers.at_least_one(fbank), num_frames)]
    vectors, num_vectors = frozen_encoder.build(config.encoder, *rows)
    num_items = tf.size(num_frames)
    return tf.cast(vectors[:num_items], tf.float32), num_vectors[:num_items]
