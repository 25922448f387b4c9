"""CTranslate2's Whisper in int8: the peer of benchmarks/transcription.py.

Its weights are random, so that nothing is downloaded: its time depends on their sizes and on the
number of decoded tokens, which is fixed.
"""

from __future__ import annotations

import os

import ctranslate2
import numpy as np
import tensorflow as tf
from ctranslate2 import specs

from benchmarks.pretrained import random_whisper
from tfrecord_builder.audio import frontend, pretrained_encoder

_NUM_TOKENS = 51865  # vocabulary size of the multilingual Whisper
_TEXT_TOKENS = 448  # positions of the decoder
_SPECIAL = ("<|endoftext|>", "<|startoftranscript|>", "<|zh|>", "<|transcribe|>", "<|notimestamps|>")
_PROMPT = list(_SPECIAL[1:])
_WINDOW_SECONDS = 30


def write(directory: str, sizes: pretrained_encoder.PretrainedEncoder) -> None:
    """Writes a model of random weights in int8, whose decoder is as deep and wide as its encoder."""
    draw = _Draw(sizes.units)
    spec = specs.WhisperSpec(sizes.layers, sizes.heads, sizes.layers, sizes.heads)
    _set_encoder(draw, spec.encoder, sizes)
    _set_decoder(draw, spec.decoder, sizes)
    spec.register_vocabulary([*_SPECIAL, *(f"token{i}" for i in range(len(_SPECIAL), _NUM_TOKENS))])
    spec.validate()
    spec.optimize(quantization="int8")
    os.makedirs(directory, exist_ok=True)
    spec.save(directory)


class Transcriber:
    """Transcribes one recording after another, greedily, with num_threads threads."""

    def __init__(self, directory: str, num_threads: int):
        self._model = ctranslate2.models.Whisper(
            directory, device="cpu", compute_type="int8", inter_threads=1, intra_threads=num_threads
        )
        self._config = frontend.FrontendConfig(frontend="whisper_log_mel", num_mel_bins=self._model.n_mels)
        self._max_samples = _WINDOW_SECONDS * self._config.sample_rate
        with tf.Graph().as_default() as graph:
            self._waveform = tf.compat.v1.placeholder(tf.float32, [self._max_samples])
            self._features = frontend.extract(self._waveform, self._config)
            threads = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=num_threads)
            self._session = tf.compat.v1.Session(graph=graph, config=threads)

    def transcribe(self, waveform: np.ndarray, num_tokens: int) -> list[int]:
        """Returns num_tokens ids decoded from a waveform, float32 [num_samples].

        As faster-whisper does, it pads to 30 seconds with zeros.
        """
        padded = np.pad(waveform, [0, self._max_samples - len(waveform)])
        features = self._session.run(self._features, {self._waveform: padded})  # [3000, num_mel_bins]
        encoded = ctranslate2.StorageView.from_array(np.ascontiguousarray(features.T)[np.newaxis])
        (result,) = self._model.generate(
            encoded,
            [_PROMPT],
            beam_size=1,
            max_length=max(2 * num_tokens, num_tokens + len(_PROMPT) - 1),  # half of it, less the prompt
            suppress_tokens=list(range(len(_SPECIAL))),
            suppress_blank=False,
        )
        return result.sequences_ids[0]


class _Draw:
    """Random weights that keep the size of what they multiply."""

    def __init__(self, units: int):
        self._rng, self._units = np.random.default_rng(2), units

    def matrix(self, *shape: int) -> np.ndarray:
        scale = np.prod(shape[1:]) ** -0.5
        return (scale * self._rng.standard_normal(shape)).astype(np.float32)

    def linear(self, spec, outputs: int, inputs: int) -> None:
        spec.weight, spec.bias = self.matrix(outputs, inputs), np.zeros(outputs, np.float32)

    def norm(self, spec) -> None:
        spec.gamma, spec.beta = np.ones(self._units, np.float32), np.zeros(self._units, np.float32)

    def block(self, spec, inner_units: int) -> None:
        """Sets self-attention and feed forward of a block."""
        units = self._units
        self.norm(spec.self_attention.layer_norm)
        self.linear(spec.self_attention.linear[0], 3 * units, units)
        self.linear(spec.self_attention.linear[1], units, units)
        self.norm(spec.ffn.layer_norm)
        self.linear(spec.ffn.linear_0, inner_units, units)
        self.linear(spec.ffn.linear_1, units, inner_units)


def _set_encoder(draw: _Draw, spec, sizes) -> None:
    for convolution, inputs in ((spec.conv1, sizes.num_mel_bins), (spec.conv2, sizes.units)):
        convolution.weight = draw.matrix(sizes.units, inputs, 3)
        convolution.bias = np.zeros(sizes.units, np.float32)
    positions = random_whisper.sinusoids(random_whisper.POSITIONS, sizes.units)
    spec.position_encodings.encodings = positions.astype(np.float32)
    draw.norm(spec.layer_norm)
    for layer in spec.layer:
        draw.block(layer, sizes.inner_units)


def _set_decoder(draw: _Draw, spec, sizes) -> None:
    units = sizes.units
    spec.embeddings.weight = draw.matrix(_NUM_TOKENS, units)
    spec.projection.weight = spec.embeddings.weight
    spec.position_encodings.encodings = draw.matrix(_TEXT_TOKENS, units)
    draw.norm(spec.layer_norm)
    for layer in spec.layer:
        draw.block(layer, sizes.inner_units)
        draw.norm(layer.attention.layer_norm)
        for linear, parts in zip(layer.attention.linear, (1, 2, 1)):
            draw.linear(linear, parts * units, units)
