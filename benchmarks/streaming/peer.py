"""The peer of benchmarks/streaming: sherpa-onnx with a Conformer of the same size in the form of WeNet's.

Its inputs, outputs and metadata are those that sherpa-onnx reads (online-wenet-ctc-model.cc); weights are
random, so what is compared is the time. As in WeNet, attention has the frames of a chunk and a cache, and
convolutions a cache; the subsampling reads three frames of the next chunk.
"""

import os

import numpy as np
import onnx
import sherpa_onnx
import torch
from torch import nn
from torch.nn import functional as F

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import streaming
from tfrecord_builder.audio import frontend

_SUBSAMPLING, _RIGHT_CONTEXT, _OPSET = 4, 6, 17
_INPUTS = ("x", "offset", "required_cache_size", "attn_cache", "conv_cache", "attn_mask")


class Encoder(nn.Module):
    """One chunk of one stream: features and caches to log probabilities and caches."""

    def __init__(self, config: config_lib.AcousticConfig, num_bins: int, num_classes: int):
        super().__init__()
        channels, units = config.subsampling_channels, config.encoder_units
        self.halve = nn.Sequential(
            *(nn.Conv2d(1, channels, 3, 2), nn.ReLU(), nn.Conv2d(channels, channels, 3, 2), nn.ReLU())
        )
        self.project = nn.Linear(channels * (((num_bins - 1) // 2 - 1) // 2), units)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.encoder_layers))
        self.norm, self.classes = nn.LayerNorm(units), nn.Linear(units, num_classes)

    def forward(self, x, offset, required_cache_size, attn_cache, conv_cache, attn_mask):
        hidden = self.halve(x[:, None])
        hidden = self.project(hidden.transpose(1, 2).flatten(2))
        hidden = hidden + 0.0 * (offset + required_cache_size).float()  # sherpa-onnx gives all six
        caches = []
        for block, heads, frames in zip(self.blocks, attn_cache, conv_cache):
            hidden, *after = block(hidden, heads[None], frames, attn_mask)
            caches.append(after)
        log_probs = F.log_softmax(self.classes(self.norm(hidden)), dim=-1)
        return log_probs, *(torch.cat(each) for each in zip(*caches))


class Block(nn.Module):
    """Half a feed forward, attention, convolution, half a feed forward."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        units, inner, width = config.encoder_units, config.encoder_inner_units, config.conv_kernel_size
        self.heads, self.width = config.attention_heads, width
        self.norms = nn.ModuleList(nn.LayerNorm(units) for _ in range(4))
        self.feeds = nn.ModuleList(
            nn.Sequential(nn.Linear(units, inner), nn.ReLU(), nn.Linear(inner, units)) for _ in range(2)
        )
        self.queries, self.output = nn.Linear(units, 3 * units), nn.Linear(units, units)
        self.gate, self.last = nn.Linear(units, 2 * units), nn.Linear(units, units)
        self.depthwise, self.batch_norm = nn.Conv1d(units, units, width, groups=units), nn.BatchNorm1d(units)

    def forward(self, hidden, heads, frames, mask):
        hidden = hidden + 0.5 * self.feeds[0](self.norms[0](hidden))
        attended, heads = self._attend(self.norms[1](hidden), heads, mask)
        hidden = hidden + attended
        gated = F.glu(self.gate(self.norms[2](hidden)), dim=-1).transpose(1, 2)
        joined = torch.cat([frames, gated], dim=2)
        convolved = F.silu(self.batch_norm(self.depthwise(joined))).transpose(1, 2)
        hidden = hidden + self.last(convolved)
        hidden = hidden + 0.5 * self.feeds[1](self.norms[3](hidden))
        return hidden, heads, joined[None, :, :, 1 - self.width :]

    def _attend(self, hidden, cache, mask):
        count, units = hidden.shape[1], hidden.shape[2]
        split = self.queries(hidden).reshape(1, count, 3, self.heads, units // self.heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        both = torch.cat([cache, torch.cat([keys, values], dim=3)], dim=2)
        keys, values = both.chunk(2, dim=3)
        scores = queries @ keys.transpose(2, 3) * (units // self.heads) ** -0.5
        weights = scores.masked_fill(~mask[:, None], -1e4).softmax(-1)
        attended = (weights @ values).transpose(1, 2).reshape(1, count, units)
        return self.output(attended), both[:, :, count:]


class Recogniser:
    """sherpa-onnx's recogniser of streams, with one thread."""

    def __init__(
        self, config: config_lib.AcousticConfig, features: frontend.FrontendConfig, num_tokens: int, path: str
    ):
        """Writes the model and its tokens into the directory `path`."""
        self._rate, chunk = features.sample_rate, config.chunk_frames // _SUBSAMPLING
        model, tokens = (os.path.join(path, name) for name in ("model.onnx", "peer_tokens.txt"))
        _export(Encoder(config, features.num_bins, num_tokens + 1).eval(), config, features, model)
        with open(tokens, "w", encoding="utf-8") as file:
            file.writelines(f"{'<blk>' if i == 0 else f't{i}'} {i}\n" for i in range(num_tokens + 1))
        self._recogniser = sherpa_onnx.OnlineRecognizer.from_wenet_ctc(
            tokens, model, chunk, streaming.LEFT_FRAMES // chunk, num_threads=1
        )
        self._stream = self._recogniser.create_stream()

    def restart(self) -> None:
        self._stream = self._recogniser.create_stream()

    def hear(self, samples: np.ndarray) -> None:
        """Hears float32 [num_samples] and decodes the chunks that are whole, greedily."""
        self._stream.accept_waveform(self._rate, samples)
        while self._recogniser.is_ready(self._stream):
            self._recogniser.decode_stream(self._stream)

    def text(self) -> str:
        """Returns the text of what was decoded."""
        return self._recogniser.get_result(self._stream)


def _export(encoder, config, features, path) -> None:
    chunk, heads = config.chunk_frames // _SUBSAMPLING, config.attention_heads
    units, layers, width = config.encoder_units, config.encoder_layers, config.conv_kernel_size
    left = streaming.LEFT_FRAMES // chunk * chunk
    example = (
        torch.zeros(1, (chunk - 1) * _SUBSAMPLING + _RIGHT_CONTEXT + 1, features.num_bins),
        torch.tensor([left]),
        torch.tensor([left]),
        torch.zeros(layers, heads, left, 2 * units // heads),
        torch.zeros(layers, 1, units, width - 1),
        torch.ones(1, 1, left + chunk, dtype=torch.bool),
    )
    outputs = ["log_probs", "next_att_cache", "next_conv_cache"]
    torch.onnx.export(
        encoder, example, path, opset_version=_OPSET, input_names=_INPUTS, output_names=outputs, dynamo=False
    )
    written = onnx.load(path)
    facts = {
        "model_type": "wenet_ctc",
        "head": heads,
        "num_blocks": layers,
        "output_size": units,
        "cnn_module_kernel": width,
        "right_context": _RIGHT_CONTEXT,
        "subsampling_factor": _SUBSAMPLING,
        "vocab_size": encoder.classes.out_features,
        "chunk_size": chunk,
        "left_chunks": left // chunk,
    }
    onnx.helper.set_model_props(written, {name: str(value) for name, value in facts.items()})
    onnx.save(written, path)
