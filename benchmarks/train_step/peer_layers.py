"""The layers of the same Conformer in PyTorch.

Modules have the names of our variable scopes, so that weights are copied by name. Written as one would for
PyTorch: nn.Linear, nn.LayerNorm, F.scaled_dot_product_attention, F.glu.
"""

import torch
import torch.nn.functional as F
from torch import nn

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import layers, normalisation

NORM = {"eps": layers.LAYER_NORM_EPSILON}


class MaskedBatchNorm(nn.Module):
    """Batch norm over the real positions of [batch, length, ..., units], with moving averages."""

    def __init__(self, units: int):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(units)), nn.Parameter(torch.zeros(units))
        self.register_buffer("moving_mean", torch.zeros(units))
        self.register_buffer("moving_variance", torch.ones(units))

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Gathers the real positions for PyTorch's own kernel: faster than to multiply by the mask."""
        if not self.training:
            gain = torch.rsqrt(self.moving_variance + normalisation.EPSILON) * self.weight
            return inputs * gain + (self.bias - self.moving_mean * gain)
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


class Projection(nn.Module):
    """Queries, keys and values, or the latter two, by one product; keys have no bias."""

    def __init__(self, units: int, num_parts: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_parts * units, units))
        self.bias = nn.Parameter(torch.zeros((num_parts - 1) * units))

    def forward(self, inputs: torch.Tensor) -> tuple:
        units = inputs.shape[-1]
        biases = torch.cat([self.bias[:-units], self.bias.new_zeros(units), self.bias[-units:]])
        return F.linear(inputs, self.weight, biases).split(units, dim=-1)


class SelfAttention(nn.Module):
    """Every position attends to those of the mask, or to those before it."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        self.query_key_value = Projection(config.encoder_units, 3)
        self.output = nn.Linear(config.encoder_units, config.encoder_units)
        self.num_heads = config.attention_heads

    def forward(self, inputs: torch.Tensor, mask=None) -> torch.Tensor:
        parts = self.query_key_value(inputs)
        return self.output(_attend(*parts, self.num_heads, mask, is_causal=mask is None))


class CrossAttention(nn.Module):
    """Every position attends to the encoder's of the mask."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        self.query = nn.Linear(config.encoder_units, config.encoder_units)
        self.key_value = Projection(config.encoder_units, 2)
        self.output = nn.Linear(config.encoder_units, config.encoder_units)
        self.num_heads = config.attention_heads

    def forward(self, inputs: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        keys, values = self.key_value(memory)
        return self.output(_attend(self.query(inputs), keys, values, self.num_heads, mask))


class Normalised(nn.Module):
    """A module after a layer norm, under the scope names of ours."""

    def __init__(self, config: config_lib.AcousticConfig, name: str, module: nn.Module):
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.encoder_units, **NORM)
        self.add_module(name, module)
        self.name = name

    def forward(self, inputs: torch.Tensor, *others) -> torch.Tensor:
        return getattr(self, self.name)(self.layer_norm(inputs), *others)


class Convolution(nn.Module):
    """Gated linear unit, depthwise convolution, batch norm, swish, projection."""

    def __init__(self, config: config_lib.AcousticConfig):
        super().__init__()
        units, width = config.encoder_units, config.conv_kernel_size
        self.width = width
        self.layer_norm = nn.LayerNorm(units, **NORM)
        self.gate = nn.Linear(units, 2 * units)
        self.depthwise_conv = nn.Conv1d(units, units, width, groups=units, bias=False)
        self.batch_norm = MaskedBatchNorm(units)
        self.project = nn.Linear(units, units)

    def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        gated = F.glu(self.gate(self.layer_norm(inputs)), dim=-1)
        extended = replicate_edges(gated, mask, self.width // 2)
        hidden = self.depthwise_conv(extended.transpose(1, 2)).transpose(1, 2)
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
            self.add_module(f"layer_norm_{i}", nn.LayerNorm(config.encoder_units, **NORM))
        self.self_attention, self.cross_attention = SelfAttention(config), CrossAttention(config)
        self.feed_forward = FeedForward(config)
        self.dropout = nn.Dropout(config.acoustic_dropout)

    def forward(self, hidden: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.dropout(self.self_attention(self.layer_norm_0(hidden)))
        hidden = hidden + self.dropout(self.cross_attention(self.layer_norm_1(hidden), memory, mask))
        return hidden + self.dropout(self.feed_forward(self.layer_norm_2(hidden)))


def replicate_edges(inputs: torch.Tensor, mask: torch.Tensor, width: int) -> torch.Tensor:
    """Extends [batch, length, ...] by copies of the first and the last real position, as ours."""
    rest = [1] * (inputs.dim() - 2)
    last = inputs[torch.arange(inputs.shape[0]), mask.sum(1) - 1][:, None]
    filled = torch.where(mask.view(*mask.shape, *rest), inputs, last)
    before, after = (edge.repeat(1, width, *rest) for edge in (filled[:, :1], last))
    return torch.cat([before, filled, after], dim=1)


def sequence_mask(lengths: torch.Tensor, max_length: int) -> torch.Tensor:
    """Returns bool [batch, max_length], whether a position is below `lengths`."""
    return torch.arange(max_length) < lengths[:, None]


def _attend(queries, keys, values, num_heads, mask=None, is_causal=False):
    split = [x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (queries, keys, values)]
    mask = None if mask is None else mask[:, None, None]
    attended = F.scaled_dot_product_attention(*split, attn_mask=mask, is_causal=is_causal)
    return attended.transpose(1, 2).flatten(2)
