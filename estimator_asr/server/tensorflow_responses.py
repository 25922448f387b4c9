"""Responses of TensorFlow Serving's predict API as JSON; see tensorflow_json.py for the requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from estimator_asr.server import tensorflow_json


def format(call: tensorflow_json.Call, results: Sequence[Mapping]) -> bytes:
    """Returns the response for the outputs of each row; that of no rows has empty columns."""
    names = results[0] if results else call.outputs
    columns = {name: _pad(name, [row[name] for row in results]) for name in names}
    if call.is_columnar:
        return _write({"outputs": _unwrap(columns)})
    return _write({"predictions": [_unwrap(dict(zip(columns, row))) for row in zip(*columns.values())]})


def _pad(name: str, values: Sequence) -> np.ndarray:
    """Returns the values of an output as one array, padded as the graph does it."""
    if not values or not np.ndim(values[0]):
        return np.array(values, None if values else object)
    number = np.finfo(np.float32).min if name == "n_best.score" else 0
    padding = b"" if values[0].dtype == object else number
    longest = max(map(len, values))
    return np.stack([_lengthen(value, longest, padding) for value in values])


def _lengthen(value: np.ndarray, length: int, padding) -> np.ndarray:
    if len(value) == length:
        return value
    return np.pad(value, (0, length - len(value)), constant_values=padding)


def _unwrap(outputs: Mapping):
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def _write(content: Mapping) -> bytes:
    return json.dumps(content, ensure_ascii=False, default=_to_json).encode()


def _to_json(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.float32):
        return float(str(value))  # 0.12 and not 0.11999999731
    return value.tolist() if value.dtype.kind in "iu" else list(value)
