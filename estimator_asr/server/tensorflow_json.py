"""JSON of TensorFlow Serving's predict API: requests to rows of inputs; tensorflow_responses has the rest.

    {"signature_name": "serving_default", "instances": [{"b64": "UklGR..."}, ...]}   -> {"predictions": [...]}
    {"inputs": {"waveform": [[...], ...], "num_samples": [...]}}                     -> {"outputs": {...}}

https://www.tensorflow.org/tfx/serving/api_rest. Waveforms of one request may differ in length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from estimator_asr.server import api_errors, hotword_limits, tensor_values

DEFAULT_SIGNATURE = "serving_default"
HOTWORDS = "hotwords"
_MAX_VALUES = 4_000_000  # numbers, strings, lists and objects of a request: 240 s of a waveform
_MAX_DIGITS = 32
_MAX_ROWS = 1000  # of a request; each is an item of the queue


class Call(NamedTuple):
    """A request: `rows` has the inputs of each instance but hotwords, which are for all of them.

    `outputs` are the names of the signature's, for the response of a request without rows.
    """

    signature: str
    rows: list[dict]
    hotwords: tuple[str, ...]
    is_columnar: bool
    outputs: tuple[str, ...] = ()


def parse(body: bytes | bytearray, definitions: Mapping) -> Call:
    """Parses a request for one of the signatures, SignatureDef by name.

    Raises:
        api_errors.ApiError: it is not JSON of this form, or does not fit the signature.
    """
    request = _read_json(body)
    signature = request.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(signature, str) or signature not in definitions or signature.startswith("_"):
        known = ", ".join(sorted(name for name in definitions if not name.startswith("_")))
        raise api_errors.refuse(
            f"signature_name: is {str(signature)[:80]!r}, expected one of {known}; send one of them"
        )
    is_columnar = "inputs" in request
    if is_columnar == ("instances" in request):
        got = "'instances' and 'inputs'" if is_columnar else "neither 'instances' nor 'inputs'"
        raise api_errors.refuse(f"request: has {got}, expected one of them; send one of them")
    read = _read_columns if is_columnar else _read_rows
    rows, hotwords = read(request["inputs" if is_columnar else "instances"], definitions[signature].inputs)
    hotword_limits.check(hotwords)
    return Call(signature, rows, hotwords, is_columnar, tuple(sorted(definitions[signature].outputs)))


def _read_json(body: bytes | bytearray) -> dict:
    if len(body) > _MAX_VALUES and sum(map(body.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise api_errors.refuse(
            f"request: has too many JSON values, expected at most {_MAX_VALUES}; send less at once, or WAV"
        )
    try:
        # Functions of Python, so that other threads have their turn.
        request = json.loads(body, parse_int=_parse_int, parse_float=lambda digits: float(digits))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        message = f"request: is not valid JSON ({reason[:200]}), expected a JSON object; fix it"
        raise api_errors.refuse(message) from None
    if not isinstance(request, dict):
        got = tensor_values.describe(request)
        raise api_errors.refuse(
            f"request: is {got}, expected an object; send one with 'instances' or 'inputs'"
        )
    return request


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _read_rows(instances, inputs: Mapping) -> tuple[list[dict], tuple[str, ...]]:
    if not isinstance(instances, list):
        got = tensor_values.describe(instances)
        raise api_errors.refuse(f"instances: is {got}, expected a list; send one value per utterance")
    _check_count(instances)
    rows = [_read_row(f"instances[{i}]", instance, inputs) for i, instance in enumerate(instances)]
    hotwords = [row.pop(HOTWORDS) for row in rows if HOTWORDS in row]
    return rows, tuple(word.decode("utf-8", "replace") for word in hotwords)


def _check_count(values: list) -> None:
    if len(values) > _MAX_ROWS:
        raise api_errors.refuse(
            f"request: has {len(values)} utterances, expected at most {_MAX_ROWS}; send fewer"
        )


def _read_row(where: str, instance, inputs: Mapping) -> dict:
    values = _name(where, instance, inputs)
    return {name: tensor_values.read(f"{where}.{name}", values[name], inputs[name], 1) for name in values}


def _read_columns(values, inputs: Mapping) -> tuple[list[dict], tuple[str, ...]]:
    columns = {}
    for name, column in _name("inputs", values, inputs).items():
        if not isinstance(column, list):
            got = tensor_values.describe(column)
            raise api_errors.refuse(f"inputs.{name}: is {got}, expected a list; send one value per utterance")
        _check_count(column)
        where = f"inputs.{name}"
        columns[name] = [
            tensor_values.read(f"{where}[{i}]", v, inputs[name], 1) for i, v in enumerate(column)
        ]
    hotwords = tuple(word.decode("utf-8", "replace") for word in columns.pop(HOTWORDS, ()))
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{length} of {name}" for name, length in lengths.items())
        raise api_errors.refuse(f"inputs: there are {got}, expected as many of each; send one per utterance")
    return [dict(zip(columns, row)) for row in zip(*columns.values())], hotwords


def _name(where: str, value, inputs: Mapping) -> Mapping:
    """Returns the inputs by name; the only input of a signature needs no name."""
    is_named = isinstance(value, dict) and set(value) != {"b64"}
    if len(inputs) == 1 and not is_named:
        value = {next(iter(inputs)): value}
    got = sorted(value) if isinstance(value, dict) else []
    if got != sorted(inputs):
        shown = ", ".join(got)[:200] or "none"
        wanted = ", ".join(sorted(inputs))
        raise api_errors.refuse(f"{where}: inputs are {shown}, expected {wanted}; send these")
    return value
