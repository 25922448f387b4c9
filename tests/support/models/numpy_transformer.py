"""Transformer layers in NumPy for the references: float64 [length, units], weights in PyTorch's order."""

import math

import numpy as np


def attend(inputs, num_heads, query, key, value, output, memory=None, causal=False):
    """Attends to memory, or to all (if causal, earlier) inputs; query to output are (weight, bias)."""
    read = inputs if memory is None else memory
    projected = dense(inputs, *query), dense(read, *key), dense(read, *value)
    heads = [np.split(each, num_heads, axis=1) for each in projected]
    joined = []
    for queries, keys, values in zip(*heads):
        scores = queries @ keys.T / math.sqrt(keys.shape[1])
        if causal:
            scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        joined.append(scores / scores.sum(axis=1, keepdims=True) @ values)
    return dense(np.concatenate(joined, axis=1), *output)


def dense(inputs, weight, bias):
    return inputs @ weight.T + bias


def convolve(inputs, weight, stride):
    """Without padding; weight [outputs, inputs, width]."""
    width = weight.shape[2]
    windows = [inputs[start : start + width] for start in range(0, len(inputs) - width + 1, stride)]
    return np.einsum("twi,oiw->to", np.array(windows), weight)


def normalise(values, scale, shift, axis=1):
    centred = values - values.mean(axis=axis, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=axis, keepdims=True) + 1e-5) * scale + shift


def gelu(values):
    return 0.5 * values * (1.0 + np.vectorize(math.erf)(values / math.sqrt(2.0)))
