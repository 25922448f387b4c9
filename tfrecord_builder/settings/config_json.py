"""Converts frozen dataclasses to JSON and back; a value of another type is refused with its path."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from tfrecord_builder import errors

Config = TypeVar("Config")

EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list",
    dict: "named values",
}


def to_json_dict(config: Any) -> dict[str, Any]:
    """Returns values as JSON has them: nested dataclasses become dicts, tuples lists, keys strings."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_json_dict(config_class: type[Config], values: Mapping[str, Any]) -> Config:
    """Makes a config from what `to_json_dict` returned; a missing key takes its default.

    Raises:
        errors.UserError: a key is unknown, one without a default is missing, or a value has another type.
    """
    return _from_json(config_class, values, config_class.__name__)


def is_optional(field_type: Any) -> bool:
    return typing.get_origin(field_type) is typing.Union and type(None) in typing.get_args(field_type)


def without_none(field_type: Any) -> Any:
    return next(option for option in typing.get_args(field_type) if option is not type(None))


def _from_json(wanted: Any, value: Any, where: str) -> Any:
    if is_optional(wanted):
        return None if value is None else _from_json(without_none(wanted), value, where)
    if dataclasses.is_dataclass(wanted):
        return _dataclass_from_json(wanted, value, where)
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
    return _require(value, wanted, where) if wanted in EXPECTED else value


def _require(value: Any, wanted: type, where: str) -> Any:
    if type(value) is not wanted:
        raise errors.UserError(f"{where}: is {value!r}, expected {EXPECTED[wanted]}")
    return value


def _key_from_json(wanted: type, key: str, where: str) -> Any:
    try:
        return wanted(key)
    except ValueError:
        raise errors.UserError(f"{where}: key {key!r} is not {EXPECTED[wanted]}") from None


def _dataclass_from_json(config_class: type, values: Any, where: str) -> Any:
    _require(values, dict, where)
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        expected = ", ".join(fields)
        raise errors.UserError(f"{where}: unknown key {', '.join(unknown)}, expected only {expected}")
    missing = [name for name in sorted(set(fields) - set(values)) if not _has_default(fields[name])]
    if missing:
        raise errors.UserError(f"{where}: key {', '.join(missing)} is missing; was another version used?")
    hints = typing.get_type_hints(config_class)
    return config_class(**{name: _from_json(hints[name], values[name], f"{where}.{name}") for name in values})


def _has_default(field: dataclasses.Field) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
