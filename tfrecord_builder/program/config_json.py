"""Parses JSON, and converts frozen dataclasses to JSON and back; rejects values of the wrong type."""

from __future__ import annotations

import dataclasses
import json
import math
import reprlib
import typing
from collections.abc import Mapping
from typing import Any, Optional, TypeVar

from tfrecord_builder import errors

Config = TypeVar("Config")

EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list",
    dict: "an object",
}
_MAX_DIGITS = 300  # longer integers may not fit into a float, whose maximum is about 1.8e308


def parse(text: str | bytes) -> Any:
    """Parses JSON; raises ValueError if it is invalid or nested too deeply, or an integer is too long."""
    try:
        return json.loads(text, parse_int=_parse_int)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"an integer has too many digits ({len(digits)})")
    return int(digits)


def to_json_dict(config: Any) -> dict[str, Any]:
    """Converts a dataclass to JSON types: dataclasses to dicts, tuples to lists, and keys to strings."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_json_dict(config_class: type[Config], values: Mapping[str, Any]) -> Config:
    """Makes a config from the output of `to_json_dict`; missing keys get their default values.

    Raises errors.UserError if a key is unknown, a key without a default is missing, or a value has the wrong
    type or is NaN or Inf.
    """
    return _from_json(config_class, values, config_class.__name__)


def without_none(field_type: Any) -> Optional[Any]:
    """Returns X for Optional[X], and None for any other type."""
    options = typing.get_args(field_type) if typing.get_origin(field_type) is typing.Union else ()
    return next((option for option in options if option is not type(None)), None)


def _from_json(wanted: Any, value: Any, where: str) -> Any:
    inner = without_none(wanted)
    if inner is not None:
        return None if value is None else _from_json(inner, value, where)
    if dataclasses.is_dataclass(wanted):
        return _dataclass_from_json(wanted, _require(value, dict, where), where)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is tuple:
        return tuple(_from_json(arguments[0], item, where) for item in _require(value, list, where))
    if origin is dict:
        return {
            _key_from_json(arguments[0], key, where): _from_json(arguments[1], item, f"{where}.{key}")
            for key, item in _require(value, dict, where).items()
        }
    if wanted is float and type(value) is int:
        return float(value)
    if wanted is float and type(value) is float and not math.isfinite(value):
        raise errors.UserError(f"{where} is {value}, expected a finite number")
    return _require(value, wanted, where) if wanted in EXPECTED else value


def _require(value: Any, wanted: type, where: str) -> Any:
    if type(value) is not wanted:
        raise errors.UserError(f"{where} is {reprlib.repr(value)}, expected {EXPECTED[wanted]}")
    return value


def _key_from_json(wanted: type, key: str, where: str) -> Any:
    try:
        return wanted(key)
    except ValueError:
        raise errors.UserError(f"{where}: key {key!r} is not {EXPECTED[wanted]}") from None


def _dataclass_from_json(config_class: type, values: Mapping[str, Any], where: str) -> Any:
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    removed = getattr(config_class, "REMOVED", ())  # fields that only earlier versions have
    values = {name: value for name, value in values.items() if name not in removed}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        expected = ", ".join(fields)
        raise errors.UserError(f"{where}: unknown key {', '.join(unknown)}; the known keys are {expected}")
    no_default = (dataclasses.MISSING, dataclasses.MISSING)
    missing = [
        name
        for name, field in sorted(fields.items())
        if name not in values and (field.default, field.default_factory) == no_default
    ]
    if missing:
        raise errors.UserError(
            f"{where}: key {', '.join(missing)} is missing; was the file written by another version?"
        )
    hints = typing.get_type_hints(config_class)
    return config_class(**{name: _from_json(hints[name], values[name], f"{where}.{name}") for name in values})
