"""Builds the graphs that make up each format; estimator_asr_runtime does the work between the graphs.

    acoustic   waveform float32 [1, num_samples]
                   -> CTC's log_probs float32 [1, num_frames, num_classes], blank last; if there is an
                      attention decoder, also encoding float32 [1, num_frames, units]
    decoder    encoding; token_ids int32 [num_sequences, max_tokens], num_tokens int32 [num_sequences]
                   -> scores float32 [num_sequences], log probabilities from the attention decoder
    language   token_ids int32 [rows, length], num_tokens int32 [rows]
                   -> characters int32 and log_probs float32 [rows, length, count]: the most probable
                      characters for each token, best first
    punctuation
                character_ids int32 [1, length], num_characters int32 [1]
                   -> scores float32 [1, length, punctuation.NUM_MARKS], see punctuation.score

The graphs contain no control flow, strings or lookup tables, and their weights are constants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory
from estimator_asr.exporting.formats import rewriting
from estimator_asr.exporting.saved_model import cascade, trained_model
from estimator_asr.models import acoustic as acoustic_model
from estimator_asr.models import encoders, frozen_encoder, layers, punctuation
from estimator_asr.models.tasks import tasks
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend

_MOST_BYTES = 1_900_000_000  # files in either format are limited to 2 GiB

Tensors = dict[str, tf.Tensor]


class Part(NamedTuple):
    """A graph whose inputs and outputs are tensors named NAME:0."""

    name: str
    graph: tf.compat.v1.GraphDef
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def build(
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel],
    punctuation: Optional[trained_model.TrainedModel] = None,
) -> list[Part]:
    """Builds the graphs with the weights from the checkpoints."""
    has_decoder = acoustic.model.decode.attention_weight > 0
    parts = [_freeze("acoustic", acoustic, lambda: _build_acoustic(acoustic, has_decoder))]
    if has_decoder:
        parts.append(_freeze("decoder", acoustic, lambda: _build_decoder(acoustic)))
    if language:
        parts.append(_freeze("language", language, lambda: _build_language(language)))
    if punctuation:
        parts.append(_freeze("punctuation", punctuation, lambda: _build_punctuation(punctuation)))
    return parts


def find_decode(model: model_directory.ModelDirectory) -> config_lib.DecodeConfig:
    """Returns the decoding settings; ngram_weight is 0 if the search uses no n-gram model."""
    has_ngram = model.decode.decoding == "beam" and model.ngram is not None
    return dataclasses.replace(model.decode, ngram_weight=model.decode.ngram_weight * has_ngram)


def _freeze(name: str, trained, make: Callable[[], tuple[Tensors, Tensors]]) -> Part:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        inputs, outputs = make()
        _check_size(name)
        for output, tensor in outputs.items():
            tf.identity(tensor, output)
        cascade.restore(session, trained.model, trained.checkpoint)
        if "waveform" in inputs and trained.model.config.frontend.encoder:
            encoder = trained.model.config.frontend.encoder.encoder
            encoder_weights.load(session, trained.model.path, encoder)
        frozen = tf.compat.v1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), list(outputs)
        )
    return Part(name, rewriting.rewrite(frozen), tuple(inputs), tuple(outputs))


def _check_size(name: str) -> None:
    """Raises errors.UserError if the variables in the current graph are too large for one file."""
    variables = tf.compat.v1.global_variables()
    num_bytes = sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)
    if num_bytes > _MOST_BYTES:
        raise errors.UserError(
            f"export: the weights of the {name} graph take up {num_bytes / 1e9:.1f} GB, but --format "
            f"supports at most {_MOST_BYTES / 1e9:.1f} GB; omit --format, or choose a smaller encoder"
        )


def _build_acoustic(trained, has_decoder) -> tuple[Tensors, Tensors]:
    waveform = tf.compat.v1.placeholder(tf.float32, [1, None], "waveform")
    num_samples = tf.shape(waveform)[1:]
    fbank, num_frames = _extract(waveform, num_samples, trained.model.config.frontend)
    results = tasks.for_model(trained.model).build({"fbank": fbank, "num_frames": num_frames})
    outputs = {"log_probs": tf.nn.log_softmax(tf.cast(results.ctc_logits, tf.float32))}
    if has_decoder:
        outputs["encoding"] = results.encoding.outputs
    return {"waveform": waveform}, outputs


def _extract(waveform, num_samples, config: frontend.FrontendConfig) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the features of one waveform, which must have at least one frame, and num_frames."""
    num_frames = frontend.num_frames(num_samples, dataclasses.replace(config, encoder=None))
    fbank = frontend.extract(waveform, config, num_samples)
    if config.encoder is None:
        return fbank, num_frames
    vectors, num_vectors = frozen_encoder.build(config.encoder, fbank, num_frames)
    return tf.cast(vectors, tf.float32), num_vectors


def _build_decoder(trained) -> tuple[Tensors, Tensors]:
    model, placeholder = trained.model, tf.compat.v1.placeholder
    inputs = {
        "encoding": placeholder(tf.float32, [1, None, model.config.acoustic.encoder_units], "encoding"),
        "token_ids": placeholder(tf.int32, [None, None], "token_ids"),
        "num_tokens": placeholder(tf.int32, [None], "num_tokens"),
    }
    num_frames = tf.shape(inputs["encoding"])[1:2]
    mask = layers.sequence_mask(num_frames, num_frames[0])
    encoding = encoders.Encoding(inputs["encoding"], num_frames, mask)
    sequences = inputs["token_ids"][None], inputs["num_tokens"][None]
    parts = tasks.for_model(model).token_parts()
    scores = acoustic_model.score(
        model.config.acoustic, encoding, *sequences, model.tokens.num_classes, parts
    )
    return inputs, {"scores": scores[0]}


def _build_language(trained) -> tuple[Tensors, Tensors]:
    inputs = {
        "token_ids": tf.compat.v1.placeholder(tf.int32, [None, None], "token_ids"),
        "num_tokens": tf.compat.v1.placeholder(tf.int32, [None], "num_tokens"),
    }
    characters, log_probs = tasks.for_model(trained.model).build_best(inputs)
    return inputs, {"characters": characters, "log_probs": log_probs}


def _build_punctuation(trained) -> tuple[Tensors, Tensors]:
    inputs = {
        "character_ids": tf.compat.v1.placeholder(tf.int32, [1, None], "character_ids"),
        "num_characters": tf.compat.v1.placeholder(tf.int32, [1], "num_characters"),
    }
    return inputs, {"scores": punctuation.score(tasks.for_model(trained.model).build(inputs))}
