"""Whisper's encoder in PyTorch, and the same model on it: the peer of benchmarks/pretrained.py.

Written as one would for PyTorch: nn.Conv1d, F.scaled_dot_product_attention with a mask of the keys, exact
GELU, one product for queries, keys and values; no gradients of what is frozen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.pretrained import random_whisper
from benchmarks.train_step import peer as train_step_torch
from benchmarks.train_step import peer_layers as torch_layers
from benchmarks.train_step import work as train_step_work
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import experiment
from estimator_asr.models import frozen_encoder, layers
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder.audio import pretrained_encoder

_NORM = {"eps": layers.PYTORCH_EPSILON}
_TRANSLATED = ("layers", "embed_positions")
_NAMES = {
    "attention_norm": "self_attn_layer_norm",
    "output": "self_attn.out_proj",
    "feed_forward_norm": "final_layer_norm",
    "inner": "fc1",
    "outer": "fc2",
}


class Block(nn.Module):
    """Self-attention and feed forward, each on normalised inputs and added to them."""

    def __init__(self, sizes: pretrained_encoder.PretrainedEncoder):
        super().__init__()
        self.heads = sizes.heads
        self.attention_norm = nn.LayerNorm(sizes.units, **_NORM)
        self.query_key_value = nn.Linear(sizes.units, 3 * sizes.units)
        self.output = nn.Linear(sizes.units, sizes.units)
        self.feed_forward_norm = nn.LayerNorm(sizes.units, **_NORM)
        self.inner = nn.Linear(sizes.units, sizes.inner_units)
        self.outer = nn.Linear(sizes.inner_units, sizes.units)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        projected = self.query_key_value(self.attention_norm(hidden))
        parts = projected.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts, attn_mask=mask[:, None, None])
        hidden = hidden + self.output(attended.transpose(1, 2).flatten(2))
        return hidden + self.outer(F.gelu(self.inner(self.feed_forward_norm(hidden))))


class Whisper(nn.Module):
    """The frozen encoder: log-mel to the log-mel frames and the outputs of some blocks, joined."""

    def __init__(self, applied: pretrained_encoder.Applied, tensors: Mapping[str, np.ndarray]):
        super().__init__()
        sizes, self.layers = applied.encoder, applied.layers
        self.subsampling = sizes.subsampling
        self.conv1 = nn.Conv1d(sizes.num_mel_bins, sizes.units, 3, padding=1)
        self.conv2 = nn.Conv1d(sizes.units, sizes.units, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.layer_norm = nn.LayerNorm(sizes.units, **_NORM)
        positions = random_whisper.sinusoids(random_whisper.POSITIONS, sizes.units)
        self.register_buffer("positions", torch.tensor(np.float32(positions)), persistent=False)
        self.load_state_dict(_translate(tensors, sizes.layers))
        self.requires_grad_(False)

    def forward(self, fbank: torch.Tensor, num_frames: torch.Tensor) -> tuple:
        """Takes float32 [batch, frames, bins]; returns float16 [batch, frames / 2, values] and int64 [batch];
        padding is zero."""
        mask = torch_layers.sequence_mask(num_frames, fbank.shape[1])
        frames, num_frames = fbank * mask[..., None], (num_frames + 1) // 2
        hidden = F.gelu(self.conv1(frames.transpose(1, 2))) * mask[:, None]
        outputs, mask = self._run_blocks(F.gelu(self.conv2(hidden)).transpose(1, 2), num_frames)
        joined = torch.cat([stack(frames, self.subsampling), *outputs], dim=-1).half()
        return joined * mask[..., None], num_frames

    def _run_blocks(self, hidden, num_frames):
        mask = torch_layers.sequence_mask(num_frames, hidden.shape[1])
        hidden, outputs = hidden + self.positions[: hidden.shape[1]], []
        for number, block in enumerate(self.blocks, start=1):
            hidden = block(hidden, mask)
            if number in self.layers:
                outputs.append(self.layer_norm(hidden) if number == len(self.blocks) else hidden)
        return outputs, mask


class Acoustic(nn.Module):
    """Conformer blocks and CTC on outputs of the encoder, or on log-mel and the encoder."""

    def __init__(
        self, config: config_lib.AcousticConfig, num_classes: int, num_bins: int, whisper: Sequence[Whisper]
    ):
        """Takes the encoder in a tuple, empty if the batch holds its outputs: it has no trained weights."""
        super().__init__()
        self.whisper = tuple(whisper)
        self.encoder = Encoder(config, num_bins)
        self.ctc = train_step_torch.Classes(num_classes, config.encoder_units)

    def forward(self, fbank, num_frames, token_ids, num_tokens) -> torch.Tensor:
        """Returns the CTC loss per label."""
        for encoder in self.whisper:
            with torch.no_grad():
                fbank, num_frames = encoder(fbank, num_frames)
        memory, mask = self.encoder(fbank.float(), num_frames)
        logits = self.ctc.classify(memory)
        return train_step_torch.ctc_loss(logits, mask.sum(1), token_ids, num_tokens) / num_tokens.sum()


class Encoder(nn.Module):
    """Batch norm, two frames joined, Conformer blocks."""

    def __init__(self, config: config_lib.AcousticConfig, num_bins: int):
        super().__init__()
        self.input_norm = torch_layers.MaskedBatchNorm(num_bins)
        self.project = nn.Linear(frozen_encoder.SUBSAMPLING * num_bins, config.encoder_units)
        self.layer_norm = nn.LayerNorm(config.encoder_units, **torch_layers.NORM)
        for i in range(config.encoder_layers):
            self.add_module(f"block_{i}", torch_layers.ConformerBlock(config))
        self.output_norm = nn.LayerNorm(config.encoder_units, **torch_layers.NORM)
        self.num_blocks = config.encoder_layers

    def forward(self, vectors: torch.Tensor, num_frames: torch.Tensor) -> tuple:
        """Takes [batch, frames, values]; returns [batch, frames / 2, units] and the mask, bool."""
        vectors = self.input_norm(vectors, torch_layers.sequence_mask(num_frames, vectors.shape[1]))
        hidden = self.layer_norm(self.project(stack(vectors, frozen_encoder.SUBSAMPLING)))
        mask = torch_layers.sequence_mask((num_frames + 1) // 2, hidden.shape[1])
        for i in range(self.num_blocks):
            hidden = getattr(self, f"block_{i}")(hidden, mask)
        return self.output_norm(hidden) * mask[..., None], mask


class FrozenEncoder:
    """The encoder applied to one batch, by as many threads as PyTorch has."""

    def __init__(self, encoder: Whisper, batch: train_step_work.Batch):
        self._encoder = encoder
        self._batch = torch.tensor(batch.fbank), torch.tensor(batch.num_frames, dtype=torch.int64)

    def encode(self) -> list[np.ndarray]:
        """Returns the outputs of each utterance, float16 [num_subsampled, num_bins]."""
        with torch.inference_mode():
            vectors, num_vectors = self._encoder(*self._batch)
        return [row[:count] for row, count in zip(vectors.numpy(), num_vectors)]


def read(weights_dir: str, applied: pretrained_encoder.Applied) -> Whisper:
    """Returns the encoder of a directory."""
    _, tensors = encoder_weights.read(weights_dir)
    return Whisper(applied, tensors)


def make_trainer(
    config: experiment.ExperimentConfig,
    weights: dict[str, np.ndarray],
    batch: train_step_work.Batch,
    applied: pretrained_encoder.Applied,
    weights_dir: Optional[str],
) -> train_step_torch.Trainer:
    """Returns the training step with weights by the names of our variables.

    Args:
        weights_dir: that of the encoder, if the batch holds log-mel.
    """
    encoders = [read(weights_dir, applied)] if weights_dir else []
    num_classes = weights["acoustic/ctc/class_vectors"].shape[0]
    network = Acoustic(config.acoustic, num_classes, applied.num_bins, encoders)
    return train_step_torch.Trainer(network, config.optimizer, weights, train_step_torch.inputs_of(batch))


def stack(frames: torch.Tensor, factor: int) -> torch.Tensor:
    """Joins `factor` frames of [batch, frames, values] into one, zeros after the last."""
    padded = F.pad(frames, (0, 0, 0, -frames.shape[1] % factor))
    return padded.view(padded.shape[0], -1, factor * padded.shape[2])


def _translate(tensors: Mapping[str, np.ndarray], num_blocks: int) -> dict[str, torch.Tensor]:
    """Returns the published tensors by the names of the modules above; keys have no bias."""
    values = {name: value for name, value in tensors.items() if name.split(".")[0] not in _TRANSLATED}
    for number in range(num_blocks):
        prefix, block = f"layers.{number}.", f"blocks.{number}"
        part = {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
        zeros = np.zeros_like(part["self_attn.q_proj.bias"])
        for kind in ("weight", "bias"):
            joined = [part.get(f"self_attn.{name}_proj.{kind}", zeros) for name in "qkv"]
            values[f"{block}.query_key_value.{kind}"] = np.concatenate(joined)
            for ours, theirs in _NAMES.items():
                values[f"{block}.{ours}.{kind}"] = part[f"{theirs}.{kind}"]
    return {name: torch.tensor(np.asarray(value, np.float32)) for name, value in values.items()}
