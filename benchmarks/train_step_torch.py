"""The same Conformer in PyTorch, and its training step: the peer of benchmarks/train_step.py.

Modules have the names of our variable scopes, so that weights are copied by name. Written as one would for
PyTorch: nn.Linear, F.layer_norm, F.scaled_dot_product_attention, conv2d in channels_last, fused Adam.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import train_step_work
from estimator_asr import config as config_lib
from estimator_asr.models import acoustic, layers, normalisation

_NORM = {"eps": layers.LAYER_NORM_EPSILON}


class Subsampling(nn.Module):
    """Two convolutions of stride 2, each with a masked batch norm, then one vector for four frames."""

    def __init__(self, config: config_lib.AcousticConfig, num_bins: int):
        super().__init__()
        channels = config.subsampling_channels
        for i in range(2):
            self.add_module(f"halve_{i}", nn.Conv2d(channels if i else 1, channels, 3, 2, padding=1))
            self.add_module(f"batch_norm_{i}", MaskedBatchNorm(channels))
        self.project = nn.Linear(-(-num_bins // 4) * channels, config.encoder_units)
        self.layer_norm = nn.LayerNorm(config.encoder_units, **_NORM)

    def forward(self, fbank: torch.Tensor, num_frames: torch.Tensor) -> tuple:
        """Takes [batch, frames, bins]; gives [batch, frames / 4, units] and the mask, bool."""
        hidden, mask = fbank[:, None].to(memory_format=torch.channels_last), _mask(num_frames, fbank.shape[1])
        for i in range(2):
            hidden = getattr(self, f"halve_{i}")(hidden * mask[:, None, :, None])
            num_frames = (num_frames + 1) // 2
            mask = _mask(num_frames, hidden.shape[2])
            normalised = getattr(self, f"batch_norm_{i}")(hidden.permute(0, 2, 3, 1), mask)
            hidden = F.relu(normalised).permute(0, 3, 1, 2)
        flat = hidden.permute(0, 2, 3, 1).flatten(2)
        return self.layer_norm(self.project(flat)), mask


class MaskedBatchNorm(nn.Module):
    """Batch norm over the real positions of [batch, length, ..., units], with moving averages."""

    def __init__(self, units: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(units)), nn.Parameter(torch.zeros(units))
        self.register_buffer("moving_mean", torch.zeros(units))
        self.register_buffer("moving_variance", torch.ones(units))

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Gathers the real positions for PyTorch's own kernel: faster than to multiply by the mask."""
        real = F.batch_norm(
            inputs[mask].flatten(0, -2),
            self.moving_mean,
            self.moving_variance,
            self.weight,
            self.bias,
            training=True,
            momentum=1 - normalisation.MOMENTUM,
            eps=normalisation.EPSILON,
        )
        outputs = torch.zeros_like(inputs)
        outputs[mask] = real.view(-1, *inputs.shape[2:])
        return outputs


class FeedForward(nn.Module):
    """Two layers with dropout between them."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        self.inner = nn.Linear(config.encoder_units, config.encoder_inner_units)
        self.outer = nn.Linear(config.encoder_inner_units, config.encoder_units)
        self.dropout = nn.Dropout(config.acoustic_dropout)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.outer(self.dropout(F.relu(self.inner(inputs))))


class SelfAttention(nn.Module):
    """Every position attends to those of the mask, or to those before it."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        self.query_key_value = nn.Linear(config.encoder_units, 3 * config.encoder_units)
        self.output = nn.Linear(config.encoder_units, config.encoder_units)
        self.num_heads = config.attention_heads

    def forward(self, inputs: torch.Tensor, mask=None) -> torch.Tensor:
        parts = self.query_key_value(inputs).chunk(3, dim=-1)
        return self.output(_attend(*parts, self.num_heads, mask, is_causal=mask is None))


class CrossAttention(nn.Module):
    """Every position attends to the encoder's of the mask."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        self.query = nn.Linear(config.encoder_units, config.encoder_units)
        self.key_value = nn.Linear(config.encoder_units, 2 * config.encoder_units)
        self.output = nn.Linear(config.encoder_units, config.encoder_units)
        self.num_heads = config.attention_heads

    def forward(self, inputs: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return self.output(_attend(self.query(inputs), keys, values, self.num_heads, mask))


class Normalised(nn.Module):
    """A module behind a layer norm, under the scope names of ours."""

    def __init__(self, config: config_lib.AcousticConfig, name: str, module: nn.Module):
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.encoder_units, **_NORM)
        self.add_module(name, module)
        self.name = name

    def forward(self, inputs: torch.Tensor, *others) -> torch.Tensor:
        return getattr(self, self.name)(self.layer_norm(inputs), *others)


class Convolution(nn.Module):
    """Gated linear unit, depthwise convolution, batch norm, swish, projection."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        units, width = config.encoder_units, config.conv_kernel_size
        self.layer_norm = nn.LayerNorm(units, **_NORM)
        self.gate = nn.Linear(units, 2 * units)
        self.depthwise_conv = nn.Conv1d(units, units, width, padding=width // 2, groups=units)
        self.batch_norm = MaskedBatchNorm(units)
        self.project = nn.Linear(units, units)

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        gated = F.glu(self.gate(self.layer_norm(inputs)), dim=-1) * mask[..., None]
        hidden = self.depthwise_conv(gated.transpose(1, 2)).transpose(1, 2)
        return self.project(F.silu(self.batch_norm(hidden, mask)))


class ConformerBlock(nn.Module):
    """Half a feed forward, attention, convolution, half a feed forward."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        self.feed_forward_in = Normalised(config, "feed_forward", FeedForward(config))
        self.attention = Normalised(config, "self_attention", SelfAttention(config))
        self.convolution = Convolution(config)
        self.feed_forward_out = Normalised(config, "feed_forward", FeedForward(config))
        self.dropout = nn.Dropout(config.acoustic_dropout)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = hidden + 0.5 * self.dropout(self.feed_forward_in(hidden))
        hidden = hidden + self.dropout(self.attention(hidden, mask))
        hidden = hidden + self.dropout(self.convolution(hidden, mask))
        return hidden + 0.5 * self.dropout(self.feed_forward_out(hidden))


class DecoderBlock(nn.Module):
    """Attention to earlier positions, attention to the encoder, feed forward."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        for i in range(3):
            self.add_module(f"layer_norm_{i}", nn.LayerNorm(config.encoder_units, **_NORM))
        self.self_attention, self.cross_attention = SelfAttention(config), CrossAttention(config)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.acoustic_dropout)

    def forward(self, hidden: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.dropout(self.self_attention(self.layer_norm_0(hidden)))
        hidden = hidden + self.dropout(self.cross_attention(self.layer_norm_1(hidden), memory, mask))
        return hidden + self.dropout(self.feed_forward(self.layer_norm_2(hidden)))


class Encoder(Subsampling):
    """Subsampling, blocks, a last layer norm."""

    def __init__(self, config: config_lib.AcousticConfig, num_bins: int):
        super().__init__(config, num_bins)
        for i in range(config.encoder_layers):
            self.add_module(f"block_{i}", ConformerBlock(config))
        self.output_norm = nn.LayerNorm(config.encoder_units, **_NORM)
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
        """Gives the logits."""
        return F.linear(hidden, self.class_vectors, self.bias[0])


class Decoder(Classes):
    """Transformer decoder whose embeddings are its class vectors."""

    def __init__(self, config: config_lib.AcousticConfig, num_classes: int):
        super().__init__(num_classes, config.encoder_units)
        for i in range(config.decoder_layers):
            self.add_module(f"block_{i}", DecoderBlock(config))
        self.output_norm = nn.LayerNorm(config.encoder_units, **_NORM)
        self.dropout, self.num_blocks = nn.Dropout(config.acoustic_dropout), config.decoder_layers

    def forward(self, previous_ids: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        units = self.class_vectors.shape[1]
        hidden = F.embedding(previous_ids, self.class_vectors) * math.sqrt(units)
        hidden = self.dropout(hidden + _positions(previous_ids.shape[1], units))
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
        """Gives the CTC and decoder loss, weighted, per label."""
        memory, mask = self.encoder(_normalise(fbank, num_frames), num_frames)
        ctc = self._ctc_loss(memory, mask, token_ids, num_tokens)
        blank = self.ctc.class_vectors.shape[0] - 1
        is_token = _mask(num_tokens, token_ids.shape[1])
        ids = torch.where(is_token, token_ids, blank)
        logits = self.decoder(F.pad(ids, (1, 0), value=blank), memory, mask)
        targets = F.pad(ids, (0, 1), value=blank)
        targets = torch.where(_mask(num_tokens + 1, targets.shape[1]), targets, -100)
        smoothing = self.config.label_smoothing
        decoder = F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="sum", label_smoothing=smoothing
        )
        weight = self.config.ctc_weight
        return (weight * ctc + (1 - weight) * decoder) / num_tokens.sum()

    def _ctc_loss(self, memory, mask, token_ids, num_tokens):
        logits = self.ctc.classify(self.dropout(memory))
        scores = F.log_softmax(logits, dim=-1).transpose(0, 1)
        blank = logits.shape[-1] - 1
        return F.ctc_loss(scores, token_ids, mask.sum(1), num_tokens, blank=blank, reduction="sum")


class Trainer:
    """A model with the weights of ours, Adam and clipping as ours."""

    def __init__(
        self,
        config: config_lib.AcousticConfig,
        optimizer: config_lib.OptimizerConfig,
        weights: dict[str, np.ndarray],
        batch: train_step_work.Batch,
        learning_rate: float,
    ):
        """Takes settings, weights by the names of our variables, the one batch, and the rate of each step."""
        num_classes = weights["acoustic/ctc/class_vectors"].shape[0]
        self.model = Acoustic(config, num_classes, batch.fbank.shape[2])
        copied = {_name(name): _layout(name, value) for name, value in weights.items()}
        missing, unexpected = self.model.load_state_dict(copied, strict=False)
        assert not unexpected and all("moving" in name for name in missing), (missing, unexpected)
        self.model.to(memory_format=torch.channels_last)
        self._clip_norm = optimizer.clip_norm
        betas = (optimizer.adam_beta1, optimizer.adam_beta2)
        self._optimizer = torch.optim.Adam(
            self.model.parameters(), learning_rate, betas, optimizer.adam_epsilon, fused=True
        )
        self._matrix = torch.randn(2048, 2048)
        ids = (batch.num_frames, batch.token_ids, batch.num_tokens)
        self._batch = [torch.tensor(batch.fbank), *(torch.tensor(x, dtype=torch.int64) for x in ids)]

    def step(self) -> tuple[float, float]:
        """Makes one step; gives loss and gradient norm of before it."""
        self._optimizer.zero_grad(set_to_none=True)
        loss = self.model(*self._batch)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self._clip_norm)
        self._optimizer.step()
        return float(loss.detach()), float(norm)

    def multiply(self) -> None:
        """Multiplies two large matrices."""
        torch.mm(self._matrix, self._matrix)


def _name(name: str) -> str:
    path, last = name.split("/", 1)[1].replace("/", ".").rsplit(".", 1)
    return f"{path}.{ {'kernel': 'weight', 'scale': 'weight', 'shift': 'bias'}.get(last, last) }"


def _layout(name: str, value: np.ndarray) -> torch.Tensor:
    if not name.endswith("kernel"):
        return torch.tensor(value)
    if "depthwise" in name:
        value = value[:, 0].transpose(1, 2, 0)  # [width, units, 1] to [units, 1, width]
    else:
        value = value.transpose(3, 2, 0, 1) if value.ndim == 4 else value.T
    return torch.tensor(np.ascontiguousarray(value))


def _normalise(fbank, num_frames):
    mask = _mask(num_frames, fbank.shape[1])[..., None]
    loudest = fbank.masked_fill(~mask, -math.inf).amax((1, 2), keepdim=True)
    raised = torch.maximum(fbank, loudest - float(acoustic.DYNAMIC_RANGE)) * mask
    count = mask.sum(1, keepdim=True).clamp(min=1)
    centred = (raised - raised.sum(1, keepdim=True) / count) * mask
    variance = centred.square().sum(1, keepdim=True) / count
    return centred * torch.rsqrt(variance + acoustic.VARIANCE_FLOOR)


def _attend(queries, keys, values, num_heads, mask=None, is_causal=False):
    split = [x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (queries, keys, values)]
    mask = None if mask is None else mask[:, None, None]
    attended = F.scaled_dot_product_attention(*split, attn_mask=mask, is_causal=is_causal)
    return attended.transpose(1, 2).flatten(2)


def _positions(length, units):
    rates = torch.exp(-math.log(10000.0) * torch.arange(0, units, 2) / units)
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _mask(lengths, max_length):
    return torch.arange(max_length) < lengths[:, None]
