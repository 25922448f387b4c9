"""The same language model in PyTorch: the peer of benchmarks/language.py."""

import math
import types

import numpy as np
import torch
from torch import nn

from benchmarks.train_step import peer as train_step_torch
from benchmarks.train_step import peer_layers as torch_layers
from estimator_asr.experiment import config as config_lib

# First and last token of each n-gram, as in estimator_asr/models/language.py.
_WINDOWS = ((-1, 0), (0, 1), (-1, 1), (-2, 0), (0, 2))
_REACH = 2


class Layer(nn.Module):
    """Attention and feed forward, each behind a layer norm."""

    def __init__(self, config: config_lib.LanguageConfig):
        super().__init__()
        sizes = types.SimpleNamespace(
            encoder_units=config.language_units,
            encoder_inner_units=config.language_inner_units,
            attention_heads=config.language_heads,
            acoustic_dropout=0.0,
        )
        self.attention_norm = nn.LayerNorm(config.language_units, **torch_layers.NORM)
        self.self_attention = torch_layers.SelfAttention(sizes)
        self.feed_forward_norm = nn.LayerNorm(config.language_units, **torch_layers.NORM)
        self.feed_forward = torch_layers.FeedForward(sizes)
        self.dropout = nn.Dropout(config.language_dropout)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.dropout(self.self_attention(self.attention_norm(hidden), mask))
        return hidden + self.dropout(self.feed_forward(self.feed_forward_norm(hidden)))


class Language(nn.Module):
    """Tokens and hashed n-grams, a Transformer encoder, and a softmax over the candidates of each token."""

    def __init__(self, config: config_lib.LanguageConfig, mask: np.ndarray):
        """Takes the settings and the candidates, bool [tokens, characters]."""
        super().__init__()
        units, (num_tokens, num_characters) = config.language_units, mask.shape
        self.tokens = nn.Parameter(torch.zeros(num_tokens, units))
        self.characters = nn.Parameter(torch.zeros(num_characters, units))
        self.reading_bias = nn.Parameter(torch.zeros(int(mask.sum())))
        self.ngrams = nn.Parameter(torch.zeros(config.ngram_rows, config.ngram_units))
        self.ngram_projection = nn.Linear(config.ngram_units, units, bias=False)
        for i in range(config.language_layers):
            self.add_module(f"layer_{i}", Layer(config))
        self.final_norm = nn.LayerNorm(units, **torch_layers.NORM)
        self.dropout = nn.Dropout(config.language_dropout)
        self.ngram_dropout = nn.Dropout(config.ngram_dropout)
        self.config = config
        rows, columns = np.nonzero(mask)
        counts = np.bincount(rows, minlength=num_tokens)
        self.register_buffer("column_ids", torch.tensor(columns), persistent=False)
        self.register_buffer("counts", torch.tensor(counts), persistent=False)
        self.register_buffer("starts", torch.tensor(np.cumsum(counts) - counts), persistent=False)

    def forward(self, token_ids, character_ids, num_tokens) -> torch.Tensor:
        """Returns the cross-entropy per label."""
        mask = torch_layers.sequence_mask(num_tokens, token_ids.shape[1])
        units = self.config.language_units
        hidden = self.tokens[token_ids] * math.sqrt(units) + self._embed_ngrams(token_ids, mask)
        hidden = self.dropout(hidden + train_step_torch.positions(token_ids.shape[1], units))
        for i in range(self.config.language_layers):
            hidden = getattr(self, f"layer_{i}")(hidden, mask)
        hidden = self.final_norm(hidden)[mask]  # [labels, units]
        tokens, labels = token_ids[mask], character_ids[mask]
        return self._cross_entropy(hidden, tokens, labels) / len(labels)

    def _embed_ngrams(self, token_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        base, length = self.tokens.shape[0] + 1, token_ids.shape[1]
        digits = nn.functional.pad((token_ids + 1) * mask, (_REACH, _REACH))
        rows = []
        for kind, (first, last) in enumerate(_WINDOWS):
            number = torch.full_like(token_ids, kind)
            for offset in range(first, last + 1):
                number = number * base + digits[:, _REACH + offset : _REACH + offset + length]
            rows.append(number % self.config.ngram_rows)
        found = nn.functional.embedding(torch.stack(rows, dim=-1), self.ngrams)
        weights = self.ngram_dropout(torch.ones(found.shape[:-1]))
        return self.ngram_projection((found * weights[..., None]).sum(2))

    def _cross_entropy(self, hidden, tokens, labels) -> torch.Tensor:
        """Returns the sum over the labels: each position against its own candidates, [labels, most]."""
        places = torch.arange(int(self.counts[tokens].max()))
        is_candidate = places < self.counts[tokens][:, None]
        readings = (self.starts[tokens][:, None] + places).clamp(max=len(self.column_ids) - 1)
        ids = self.column_ids[readings]
        logits = torch.einsum("nu,nku->nk", hidden, self.characters[ids]) + self.reading_bias[readings]
        logits = logits.masked_fill(~is_candidate, -math.inf)
        targets = ((ids == labels[:, None]) & is_candidate).int().argmax(1)
        return nn.functional.cross_entropy(logits, targets, reduction="sum")
