"""Parses JSON requests for TensorFlow Serving's predict API into rows of inputs.

    {"signature_name": "serving_default", "instances": [{"b64": "UklGR..."}, ...]}   -> {"predictions": [...]}
    {"inputs": {"waveform": [[...], ...], "num_samples": [...]}}                     -> {"outputs": {...}}

https://www.tensorflow.org/tfx/serving/api_rest. Waveforms in one request may differ in length. Types and
shapes must match the signature exactly.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.server import api_errors, service

_DEFAULT_SIGNATURE = "serving_default"
_LENGTHS = {"num_samples": "waveform", "num_frames": "fbank"}
_MAX_VALUES = 4_000_000  # limit on JSON values, lists and objects in a request; allows 240 s of waveforms
_MAX_DIGITS = 32
_MAX_ROWS = 1000  # maximum number of utterances per request; each becomes an item in the queue


class Call(NamedTuple):
    """A parsed request."""

    signature: str
    rows: list[dict]  # inputs for each utterance, except hotwords, which apply to all utterances
    hotwords: tuple[str, ...]
    is_columnar: bool
    outputs: tuple[str, ...]  # names of the signature's outputs


def parse(body: bytes | bytearray, definitions: Mapping) -> Call:
    """Parses a request for one of the signatures; `definitions` maps their names to SignatureDefs.

    Raises api_errors.ApiError if the body is not a predict request in JSON that matches the signature.
    """
    request = _read_json(body)
    signature = request.get("signature_name", _DEFAULT_SIGNATURE)
    if not isinstance(signature, str) or signature not in definitions or signature.startswith("_"):
        names = ", ".join(sorted(name for name in definitions if not name.startswith("_")))
        raise api_errors.refuse(f"signature_name is {str(signature)[:80]!r}, expected one of {names}")
    is_columnar = "inputs" in request
    if is_columnar == ("instances" in request):
        problem = "both 'instances' and 'inputs'" if is_columnar else "neither 'instances' nor 'inputs'"
        raise api_errors.refuse(f"the request has {problem}; send exactly one of them")
    read = _read_columns if is_columnar else _read_rows
    rows, words = read(request["inputs" if is_columnar else "instances"], definitions[signature].inputs)
    for i, row in enumerate(rows):
        _check_lengths("inputs.{0}[{1}]" if is_columnar else "instances[{1}].{0}", i, row)
    hotwords = tuple(word.decode("utf-8", "replace") for word in words)
    service.check_hotwords(hotwords)
    return Call(signature, rows, hotwords, is_columnar, tuple(sorted(definitions[signature].outputs)))


def _read_json(body: bytes | bytearray) -> dict:
    if len(body) > _MAX_VALUES and sum(map(body.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise api_errors.refuse(
            f"the request has more than {_MAX_VALUES} JSON values; send fewer utterances, or send WAV files"
        )
    try:
        # Python callbacks let other threads run during parsing.
        request = json.loads(body, parse_int=_parse_int, parse_float=lambda digits: float(digits))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise api_errors.refuse(f"the request is not valid JSON ({reason[:200]})") from None
    if not isinstance(request, dict):
        raise api_errors.refuse(
            f"the request is {_describe(request)}, expected an object with 'instances' or 'inputs'"
        )
    return request


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number with {len(digits)} digits is too long")
    return int(digits)


def _read_rows(instances, inputs: Mapping) -> tuple[list[dict], list[bytes]]:
    _check_list("instances", instances)
    rows = []
    for i, instance in enumerate(instances):
        where = f"instances[{i}]"
        values = _name(where, instance, inputs)
        rows.append({name: _read_value(f"{where}.{name}", values[name], inputs[name]) for name in values})
    return rows, [row.pop(recogniser.HOTWORDS) for row in rows if recogniser.HOTWORDS in row]


def _read_columns(values, inputs: Mapping) -> tuple[list[dict], list[bytes]]:
    columns = {}
    for name, column in _name("inputs", values, inputs).items():
        where = f"inputs.{name}"
        _check_list(where, column)
        columns[name] = [_read_value(f"{where}[{i}]", v, inputs[name]) for i, v in enumerate(column)]
    hotwords = columns.pop(recogniser.HOTWORDS, [])
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise api_errors.refuse(
            f"inputs have different numbers of values ({counts}); send one value of each input per utterance"
        )
    return [dict(zip(columns, row)) for row in zip(*columns.values())], hotwords


def _check_list(where: str, values) -> None:
    if not isinstance(values, list):
        raise api_errors.refuse(
            f"{where} is {_describe(values)}, expected a list with one value per utterance"
        )
    if len(values) > _MAX_ROWS:
        raise api_errors.refuse(
            f"the request has {len(values)} utterances, expected at most {_MAX_ROWS}; send fewer"
        )


def _name(where: str, value, inputs: Mapping) -> Mapping:
    """Returns the inputs, keyed by name; clients may omit the name if the signature has only one input."""
    is_named = isinstance(value, dict) and set(value) != {"b64"}
    if len(inputs) == 1 and not is_named:
        value = {next(iter(inputs)): value}
    names = sorted(value) if isinstance(value, dict) else []
    if names != sorted(inputs):
        shown = ", ".join(names)[:200] or "none"
        raise api_errors.refuse(f"{where}: inputs are {shown}, expected {', '.join(sorted(inputs))}")
    return value


def _check_lengths(where: str, number: int, row: Mapping) -> None:
    for name, values in _LENGTHS.items():
        if name in row and not 0 <= row[name] <= len(row[values]):
            problem = f"is {row[name]}, expected 0 to {len(row[values])}, the length of {values}"
            raise api_errors.refuse(f"{where.format(name, number)} {problem}")


def _read_value(where: str, value, info) -> bytes | np.ndarray:
    """Returns bytes for a string input, otherwise an array of the input's type without the batch axis."""
    dtype = tf.dtypes.as_dtype(info.dtype)
    if dtype == tf.string:
        return _read_string(where, value)
    array = _read_numbers(where, value, np.dtype(dtype.as_numpy_dtype))
    shape = [dim.size for dim in info.tensor_shape.dim][1:]
    fits = array.ndim == len(shape) and all(dim in (-1, size) for dim, size in zip(shape, array.shape))
    if not fits:
        expected = [None if size == -1 else size for size in shape]
        raise api_errors.refuse(f"{where}: shape is {list(array.shape)}, expected {expected}")
    return array


def _read_string(where: str, value) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if not isinstance(value, dict) or set(value) != {"b64"} or not isinstance(value["b64"], str):
        expected = 'expected a string, or {"b64": BASE64} for bytes'
        raise api_errors.refuse(f"{where} is {_describe(value)}, {expected}")
    try:
        text = value["b64"].encode().translate(None, b" \t\n\v\f\r")
        padding = b"" if text.endswith(b"=") else b"=" * (-len(text) % 4)
        return base64.b64decode(text + padding, validate=True)
    except ValueError as error:
        raise api_errors.refuse(f"{where} is not valid base64 ({error}); encode the bytes again") from None


def _read_numbers(where: str, value, dtype: np.dtype) -> np.ndarray:
    is_float = dtype.kind == "f"
    limits = np.iinfo(np.int64 if is_float else dtype)
    unchecked = [value]
    while unchecked:  # np.array would allocate the longest string's size for every string in a list
        item = unchecked.pop()
        if isinstance(item, list):
            unchecked += item
        elif not (is_float and type(item) is float):
            if type(item) is not int or not limits.min <= item <= limits.max:  # also refuses bool
                raise api_errors.refuse(f"{where}: a value is {_describe(item)}, expected {dtype}")
    try:
        with np.errstate(over="ignore"):
            return np.array(value, dtype)
    except ValueError:
        raise api_errors.refuse(f"{where} has rows of different lengths; pad the shorter rows") from None


def _describe(value) -> str:
    """Returns a short description of a JSON value for an error message."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    shown = json.dumps(value if not isinstance(value, str) else value[:40], ensure_ascii=False)[:60]
    return shown.encode("utf-8", "backslashreplace").decode()
