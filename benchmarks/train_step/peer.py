"""The same Conformer in PyTorch, and its training step: the peer of benchmarks/train_step.py.

Convolutions have their images in channels_last, and Adam is PyTorch's fused one.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.train_step import peer_layers, work
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import training_config
from estimator_asr.models import feature_norm


class Subsampling(nn.Module):
    """Two convolutions of stride 2, each with a masked batch norm, then one vector for four frames."""

    def __init__(self, config: config_lib.AcousticConfig, num_bins: int):
        super().__init__()
        channels = config.subsampling_channels
        for i in range(2):
            halve = nn.Conv2d(channels if i else 1, channels, 3, 2, padding=(0, 1), bias=False)
            self.add_module(f"halve_{i}", halve)
            self.add_module(f"batch_norm_{i}", peer_layers.MaskedBatchNorm(channels))
        self.project = nn.Linear(-(-num_bins // 4) * channels, config.encoder_units)
        self.layer_norm = nn.LayerNorm(config.encoder_units, **peer_layers.NORM)

    def forward(self, fbank: torch.Tensor, num_frames: torch.Tensor) -> tuple:
        """Takes [batch, frames, bins]; returns [batch, frames / 4, units] and the mask, bool."""
        hidden, mask = fbank[..., None], peer_layers.sequence_mask(num_frames, fbank.shape[1])
        for i in range(2):
            extended = peer_layers.replicate_edges(hidden, mask, 1)  # [batch, frames, bins, channels]
            hidden = getattr(self, f"halve_{i}")(extended.permute(0, 3, 1, 2))
            num_frames = (num_frames + 1) // 2
            mask = peer_layers.sequence_mask(num_frames, hidden.shape[2])
            normalised = getattr(self, f"batch_norm_{i}")(hidden.permute(0, 2, 3, 1), mask)
            hidden = F.relu(normalised)
        return self.layer_norm(self.project(hidden.flatten(2))), mask


class Encoder(Subsampling):
    """Subsampling, blocks, a last layer norm."""

    def __init__(self, config: config_lib.AcousticConfig, num_bins: int):
        super().__init__(config, num_bins)
        for i in range(config.encoder_layers):
            self.add_module(f"block_{i}", peer_layers.ConformerBlock(config))
        self.output_norm = nn.LayerNorm(config.encoder_units, **peer_layers.NORM)
        self.dropout, self.num_blocks = nn.Dropout(config.acoustic_dropout), config.encoder_layers

    def forward(self, fbank: torch.Tensor, num_frames: torch.Tensor) -> tuple:
        hidden, mask = super().forward(fbank, num_frames)
        hidden = self.dropout(hidden)
        for i in range(self.num_blocks):
            hidden = getattr(self, f"block_{i}")(hidden, mask)
        return self.output_norm(hidden) * mask[..., None], mask


class Classes(nn.Module):
    """A vector and a bias for each class."""

    def __init__(self, num_classes: int, units: int):
        super().__init__()
        self.class_vectors = nn.Parameter(torch.zeros(num_classes, units))
        self.bias = nn.Parameter(torch.zeros(1, num_classes))

    def classify(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the logits."""
        return F.linear(hidden, self.class_vectors, self.bias[0])


class Decoder(Classes):
    """Transformer decoder whose embeddings are its class vectors."""

    def __init__(self, config: config_lib.AcousticConfig, num_classes: int):
        super().__init__(num_classes, config.encoder_units)
        for i in range(config.decoder_layers):
            self.add_module(f"block_{i}", peer_layers.DecoderBlock(config))
        self.output_norm = nn.LayerNorm(config.encoder_units, **peer_layers.NORM)
        self.dropout, self.num_blocks = nn.Dropout(config.acoustic_dropout), config.decoder_layers

    def forward(self, previous_ids: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        units = self.class_vectors.shape[1]
        hidden = F.embedding(previous_ids, self.class_vectors) * math.sqrt(units)
        hidden = self.dropout(hidden + positions(previous_ids.shape[1], units))
        for i in range(self.num_blocks):
            hidden = getattr(self, f"block_{i}")(hidden, memory, mask)
        return self.classify(self.output_norm(hidden))


class Acoustic(nn.Module):
    """The acoustic model with its loss."""

    def __init__(self, config: config_lib.AcousticConfig, num_classes: int, num_bins: int):
        super().__init__()
        self.encoder = Encoder(config, num_bins)
        self.ctc = Classes(num_classes, config.encoder_units)
        self.decoder = Decoder(config, num_classes)
        self.dropout, self.config = nn.Dropout(config.acoustic_dropout), config

    def forward(self, fbank, num_frames, token_ids, num_tokens) -> torch.Tensor:
        """Returns the CTC and decoder loss, weighted, per label."""
        memory, mask = self.encoder(normalise(fbank, num_frames), num_frames)
        ctc = ctc_loss(self.ctc.classify(self.dropout(memory)), mask.sum(1), token_ids, num_tokens)
        blank = self.ctc.class_vectors.shape[0] - 1
        is_token = peer_layers.sequence_mask(num_tokens, token_ids.shape[1])
        ids = torch.where(is_token, token_ids, blank)
        logits = self.decoder(F.pad(ids, (1, 0), value=blank), memory, mask)
        targets = F.pad(ids, (0, 1), value=blank)
        targets = torch.where(peer_layers.sequence_mask(num_tokens + 1, targets.shape[1]), targets, -100)
        smoothing = self.config.label_smoothing
        decoder = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="sum", label_smoothing=smoothing
        )
        weight = self.config.ctc_weight
        num_labels = num_tokens.sum() + (1 - weight) * len(num_tokens)  # the decoder's end of each utterance
        return (weight * ctc + (1 - weight) * decoder) / num_labels


def ctc_loss(logits, num_frames, token_ids, num_tokens) -> torch.Tensor:
    """Returns the sum over the batch; logits are [batch, frames, classes], the last class is the blank."""
    scores = F.log_softmax(logits, dim=-1).transpose(0, 1)
    blank = logits.shape[-1] - 1
    return F.ctc_loss(scores, token_ids, num_frames, num_tokens, blank=blank, reduction="sum")


class Trainer:
    """A model with the weights of ours, Adam and clipping as ours."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: training_config.OptimizerConfig,
        weights: dict[str, np.ndarray],
        inputs: Sequence[np.ndarray],
    ):
        """Takes the model, settings, weights by the names of our variables, and inputs of the one batch."""
        self.model = model
        load(self.model, weights)
        self._clip_norm = optimizer.clip_norm
        betas = (optimizer.adam_beta1, optimizer.adam_beta2)
        self._optimizer = torch.optim.Adam(
            self.model.parameters(), optimizer.learning_rate, betas, optimizer.adam_epsilon, fused=True
        )
        self._matrix = torch.randn(2048, 2048)
        self._batch = [torch.tensor(x, dtype=None if x.dtype == np.float32 else torch.int64) for x in inputs]

    def step(self) -> tuple[float, float]:
        """Runs one step; returns the loss and the gradient norm before the update."""
        self._optimizer.zero_grad(set_to_none=True)
        loss = self.model(*self._batch)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._clip_norm)
        self._optimizer.step()
        return float(loss.detach()), float(norm)

    def multiply(self) -> None:
        """Multiplies two large matrices."""
        torch.mm(self._matrix, self._matrix)


def load(model: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Copies weights by the names of our variables into a model, and lays its images out for PyTorch."""
    copied = {_name(name): _layout(name, value) for name, value in weights.items()}
    missing, unexpected = model.load_state_dict(copied, strict=False)
    assert not unexpected and all("moving" in name for name in missing), (missing, unexpected)
    model.to(memory_format=torch.channels_last)


def inputs_of(batch: work.Batch) -> tuple[np.ndarray, ...]:
    """Returns what the acoustic models take."""
    return batch.fbank, batch.num_frames, batch.token_ids, batch.num_tokens


def _name(name: str) -> str:
    *path, last = name.split("/")[1:]
    return ".".join([*path, {"kernel": "weight", "scale": "weight", "shift": "bias"}.get(last, last)])


def _layout(name: str, value: np.ndarray) -> torch.Tensor:
    if not name.endswith("kernel"):
        return torch.tensor(value)
    if "depthwise" in name:
        value = value[:, 0].transpose(1, 2, 0)  # [width, units, 1] to [units, 1, width]
    else:
        value = value.transpose(3, 2, 0, 1) if value.ndim == 4 else value.T
    return torch.tensor(np.ascontiguousarray(value))


def normalise(fbank: torch.Tensor, num_frames: torch.Tensor) -> torch.Tensor:
    """Returns log-mel [batch, frames, bins] as the acoustic model normalises it."""
    mask = peer_layers.sequence_mask(num_frames, fbank.shape[1])[..., None]
    loudest = fbank.masked_fill(~mask, -math.inf).amax((1, 2), keepdim=True)
    raised = torch.maximum(fbank, loudest - float(feature_norm.DYNAMIC_RANGE)) * mask
    count = mask.sum(1, keepdim=True).clamp(min=1)
    centred = (raised - raised.sum(1, keepdim=True) / count) * mask
    variance = centred.square().sum(1, keepdim=True) / count
    return centred * torch.rsqrt(variance + feature_norm.VARIANCE_FLOOR)


def positions(length, units):
    rates = torch.exp(-math.log(10000.0) * torch.arange(0, units, 2) / units)
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)
