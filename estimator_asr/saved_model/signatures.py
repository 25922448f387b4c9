"""The signatures of an export: WAV files, waveforms, features or pinyin, as inputs of one graph.

    serving_default   wav_bytes string [batch]
                          | decode                                    (wav_bytes is a placeholder)
    waveform          waveform float32 [batch, num_samples], num_samples int32 [batch]
                          | check, frontend, frozen encoder     (placeholders whose default is the op above)
    features          fbank float32 [batch, num_frames, num_bins], num_frames int32 [batch]     (likewise)
                          | check, cascade
                      outputs

    language          pinyin string [batch]; only with a language model

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
from estimator_asr.models import frozen_encoder
from estimator_asr.saved_model import cascade, item_checks, pinyin, sequences, statuses, wav_batches
from estimator_asr.saved_model import hotwords as hotwords_lib
from tfrecord_builder.audio import frontend

SIGNATURE_INPUTS = {
    "serving_default": ("wav_bytes",),
    "waveform": ("waveform", "num_samples"),
    "features": ("fbank", "num_frames"),
}
HOTWORDS = "hotwords"


class Signature(NamedTuple):
    """Tensors by name."""

    inputs: dict[str, tf.Tensor]
    outputs: dict[str, tf.Tensor]


class _AudioInputs(NamedTuple):
    """The graph from WAV bytes to the features of the cascade."""

    tensors: dict[str, tf.Tensor]  # that can be fed, by the names of inputs
    features: item_checks.Items
    statuses: dict[str, tf.Tensor]  # string [batch] of each signature


def build(
    acoustic: model_directory.ModelDirectory, language: Optional[model_directory.ModelDirectory]
) -> dict[str, Signature]:
    """Builds the graph; `cascade.restore` fills its variables.

    Returns:
        The signatures by name. The outputs of those for audio are those of cascade.transcribe, and `status`
        string [batch], of statuses.py. An item that is not ok is empty and changes no other; a batch of 0
        items has outputs of 0 rows. `language`, where there is a language model, is pinyin.transcribe.
    """
    language = language and _share_ngram(language)
    audio = _build_audio_inputs(acoustic.config.frontend)
    has_hotwords = hotwords_lib.is_possible(acoustic)
    hotwords = audio.tensors[HOTWORDS] if has_hotwords else None
    rows = [_at_least_one_row(each) for each in (audio.features.values, audio.features.lengths)]
    found = cascade.transcribe(acoustic, language, *rows, hotwords)
    outputs = item_checks.clear(found, audio.features.status)
    signatures = {}
    for name, inputs in list_signatures(has_hotwords).items():
        status = audio.statuses[name.removesuffix(f"_{HOTWORDS}")]
        tensors = {each: audio.tensors[each] for each in inputs}
        signatures[name] = Signature(tensors, {**outputs, "status": status})
    if language:
        strings = tf.compat.v1.placeholder(tf.string, [None], "pinyin")
        signatures["language"] = Signature({"pinyin": strings}, pinyin.transcribe(language, strings))
    sequences.forget_tables()
    return signatures


def list_signatures(has_hotwords: bool) -> dict[str, tuple[str, ...]]:
    """Returns the names of the inputs of each signature for audio."""
    inputs = SIGNATURE_INPUTS.items()
    twins = {f"{name}_{HOTWORDS}": (*names, HOTWORDS) for name, names in inputs if has_hotwords}
    return {**SIGNATURE_INPUTS, **twins}


def _share_ngram(model: model_directory.ModelDirectory) -> model_directory.ModelDirectory:
    """Returns the model with its n-gram model as tensors, which the signatures share."""
    if model.ngram is None:
        return model
    arrays = {name: getattr(model.ngram, name) for name in decoding_files.FIELDS}
    tensors = {name: tf.constant(value) for name, value in arrays.items() if name != "order"}
    return dataclasses.replace(model, ngram=types.SimpleNamespace(**{**arrays, **tensors}))


def _build_audio_inputs(config: frontend.FrontendConfig) -> _AudioInputs:
    default, limit = tf.compat.v1.placeholder_with_default, statuses.find_max_seconds(config)
    wav_bytes = tf.compat.v1.placeholder(tf.string, [None], "wav_bytes")
    waveform, num_samples, wav_status = wav_batches.decode(wav_bytes, config.sample_rate, limit)
    waveform = default(waveform, [None, None], "waveform")
    num_samples = default(num_samples, [None], "num_samples")
    base = dataclasses.replace(config, encoder=None)
    waveforms = item_checks.check_waveforms(waveform, num_samples, base, limit)
    fbank, num_frames = _extract_features(waveforms, config, base)
    fbank = default(fbank, [None, None, config.num_bins], "fbank")
    num_frames = default(num_frames, [None], "num_frames")
    features = item_checks.check_features(fbank, num_frames, config, limit)
    columns = (wav_status, waveforms.status, features.status)
    return _AudioInputs(
        {
            "wav_bytes": wav_bytes,
            "waveform": waveform,
            "num_samples": num_samples,
            "fbank": fbank,
            "num_frames": num_frames,
            HOTWORDS: default(tf.constant([], tf.string), [None], HOTWORDS),
        },
        features,
        {name: item_checks.first_problem(*columns[i:]) for i, name in enumerate(SIGNATURE_INPUTS)},
    )


def _extract_features(
    waveforms: item_checks.Items, config: frontend.FrontendConfig, base: frontend.FrontendConfig
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns fbank and num_frames of the signature `features`; `base` is the config without an encoder."""
    num_frames = frontend.num_frames(waveforms.lengths, base)
    fbank = frontend.extract(waveforms.values, config, waveforms.lengths)
    if config.encoder is None:
        return fbank, num_frames
    rows = [_at_least_one_row(each) for each in (cascade.at_least_one_column(fbank), num_frames)]
    vectors, num_vectors = frozen_encoder.build(config.encoder, *rows)
    num_items = tf.size(num_frames)
    return tf.cast(vectors[:num_items], tf.float32), num_vectors[:num_items]


def _at_least_one_row(batch: tf.Tensor) -> tf.Tensor:
    """Adds a row of zeros to an empty batch: no layer gets an empty axis."""
    missing = tf.maximum(0, 1 - tf.shape(batch)[0])
    return tf.pad(batch, [[0, missing]] + [[0, 0]] * (batch.shape.rank - 1))
