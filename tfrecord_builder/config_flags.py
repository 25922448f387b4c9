"""A frozen dataclass is the one list of settings: its fields become flags and keys of a JSON file.

    @dataclasses.dataclass(frozen=True)
    class OptimizerConfig:
        base_learning_rate: float = config_flags.setting(0.1, "learning rate before scaling", positive=True)

        def __post_init__(self):
            config_flags.validate(self)

A range is described once, in `setting`, and checked by one function whether a value comes from a flag, from
JSON or from code. A field without `setting` is no flag, but is a JSON key.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Optional, TypeVar

from absl import flags

from tfrecord_builder import errors

Config = TypeVar("Config")


@dataclasses.dataclass(frozen=True)
class _Rules:
    help: str
    choices: Optional[tuple]
    minimum: Optional[float]
    maximum: Optional[float]
    positive: bool


def setting(
    default: Any,
    help: str,
    *,
    choices: Optional[Sequence] = None,
    minimum: Optional[float] = None,
    maximum: Optional[float] = None,
    positive: bool = False,
) -> Any:
    """Describes a field of a config: its default, what it means and which values it takes.

    Args:
      default: immutable; None needs an Optional[...] field and means what the help says.
      help: one line for `--help`, with the unit.
      choices: the allowed values, for a tuple field those of each element.
      minimum: lowest allowed value, inclusive. For a tuple field the ranges hold for each element.
      maximum: highest allowed value, inclusive.
      positive: whether zero and below are refused.
    """
    rules = _Rules(help, None if choices is None else tuple(choices), minimum, maximum, positive)
    return dataclasses.field(default=default, metadata={"rules": rules})


def validate(config: Any) -> None:
    """Checks every field of a config against its `setting`; call it first in __post_init__.

    Raises:
      errors.UserError: naming the flag, the value and what was expected.
    """
    for field, rules, _ in _settings(type(config)):
        value = getattr(config, field.name)
        problem = _problem(value, rules)
        if problem:
            raise errors.UserError(f"flag --{field.name}={_to_text(value)}: {problem}")


def define(config_class: type, flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag a field; `--help` of the running program lists them.

    A flag that an earlier config defined in the same words is shared.

    Raises:
      flags.DuplicateFlagError: another flag of that name stands for something else, which is a bug of ours.
    """
    for field, rules, field_type in _settings(config_class):
        flag = _make_flag(field, rules, field_type)
        if field.name not in flag_values:
            flags.DEFINE_flag(flag, flag_values)
        elif _description(flag_values[field.name]) != _description(flag):
            raise flags.DuplicateFlagError.from_flag(field.name, flag_values, other_flag_values=None)
        # absl would list the flag under this module; --help lists the key flags of the program.
        flag_values.register_key_flag_for_module(sys.argv[0], flag_values[field.name])


def from_flags(config_class: type[Config], flag_values: flags.FlagValues = flags.FLAGS) -> Config:
    """Makes a config of the parsed flags.

    Raises:
      errors.UserError: a value is out of its range, or the config's own __post_init__ refuses a combination.
    """
    names = [field.name for field, _, _ in _settings(config_class)]
    config = config_class(**{name: flag_values[name].value for name in names})
    validate(config)
    return config


def to_json_dict(config: Any) -> dict[str, Any]:
    """Gives what json.dumps takes: nested dataclasses are dicts, tuples are lists, keys are strings."""
    return {field.name: _to_json(getattr(config, field.name)) for field in dataclasses.fields(config)}


def from_json_dict(config_class: type[Config], values: Mapping[str, Any]) -> Config:
    """Makes a config of what `to_json_dict` gave; a key that is missing takes its default.

    Raises:
      errors.UserError: a key is unknown, one without a default is missing, or a value has another type.
    """
    return _from_json(config_class, values, config_class.__name__)


def _settings(config_class: type) -> list[tuple[dataclasses.Field, _Rules, Any]]:
    hints = typing.get_type_hints(config_class)
    fields = [field for field in dataclasses.fields(config_class) if "rules" in field.metadata]
    return [(field, field.metadata["rules"], hints[field.name]) for field in fields]


def _problem(value: Any, rules: _Rules) -> Optional[str]:
    """Says what was expected, or None if the value is fine."""
    for item in value if isinstance(value, tuple) else (value,):
        if item is None:
            continue
        if rules.choices is not None and item not in rules.choices:
            return f"expected one of {', '.join(map(str, rules.choices))}"
        if isinstance(item, (int, float)) and not _is_in_range(item, rules):
            return f"expected {_range_text(rules)}"
    return None


def _is_in_range(number: float, rules: _Rules) -> bool:
    return (
        math.isfinite(number)
        and (rules.minimum is None or number >= rules.minimum)
        and (rules.maximum is None or number <= rules.maximum)
        and (not rules.positive or number > 0)
    )


def _range_text(rules: _Rules) -> str:
    limits = ["more than 0"] if rules.positive else []
    limits += [] if rules.minimum is None else [f"at least {rules.minimum:g}"]
    limits += [] if rules.maximum is None else [f"at most {rules.maximum:g}"]
    return " and ".join(limits) or "a finite number"


def _make_flag(field: dataclasses.Field, rules: _Rules, field_type: Any) -> flags.Flag:
    help_text = rules.help
    if rules.choices is not None:
        help_text += f"; one of: {', '.join(map(str, rules.choices))}"
    parser = _Parser(field_type, rules)
    return flags.Flag(parser, _Serializer(), field.name, field.default, help_text, boolean=field_type is bool)


def _description(flag: flags.Flag) -> tuple:
    return (
        flag.default,
        flag.help,
        getattr(flag.parser, "field_type", None),
        getattr(flag.parser, "rules", None),
    )


class _Parser(flags.ArgumentParser):
    """Text of a flag to the value of a field."""

    def __init__(self, field_type: Any, rules: _Rules):
        super().__init__()
        self.field_type = field_type
        self.rules = rules

    def parse(self, argument: Any) -> Any:
        value = _parse_text(argument, self.field_type) if isinstance(argument, str) else argument
        problem = _problem(value, self.rules)
        if problem:
            raise ValueError(problem)
        return value

    def flag_type(self) -> str:
        return getattr(self.field_type, "__name__", str(self.field_type))


class _Serializer(flags.ArgumentSerializer):
    def serialize(self, value: Any) -> str:
        return _to_text(value)


def _to_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


_EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list",
    dict: "named values",
}
_BOOLEANS = {"true": True, "false": False}


def _parse_text(text: str, field_type: Any) -> Any:
    if _is_optional(field_type):
        return None if text == "" else _parse_text(text, _without_none(field_type))
    if typing.get_origin(field_type) is tuple:
        item_type = typing.get_args(field_type)[0]
        return tuple(_parse_text(item.strip(), item_type) for item in text.split(",") if item.strip())
    try:
        return _BOOLEANS[text.lower()] if field_type is bool else field_type(text)
    except (KeyError, ValueError):
        raise ValueError(f"expected {_EXPECTED[field_type]}") from None


def _is_optional(field_type: Any) -> bool:
    return typing.get_origin(field_type) is typing.Union and type(None) in typing.get_args(field_type)


def _without_none(field_type: Any) -> Any:
    return next(option for option in typing.get_args(field_type) if option is not type(None))


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_json_dict(value)
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_to_json(item) for item in value]
    return value


def _from_json(wanted: Any, value: Any, where: str) -> Any:
    if _is_optional(wanted):
        return None if value is None else _from_json(_without_none(wanted), value, where)
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
    return _require(value, wanted, where) if wanted in _EXPECTED else value


def _require(value: Any, wanted: type, where: str) -> Any:
    if type(value) is not wanted:
        raise errors.UserError(f"{where}: is {value!r}, expected {_EXPECTED[wanted]}")
    return value


def _key_from_json(wanted: type, key: str, where: str) -> Any:
    try:
        return wanted(key)
    except ValueError:
        raise errors.UserError(f"{where}: key {key!r} is not {_EXPECTED[wanted]}") from None


def _dataclass_from_json(config_class: type, values: Any, where: str) -> Any:
    _require(values, dict, where)
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        expected = ", ".join(fields)
        raise errors.UserError(f"{where}: unknown key {', '.join(unknown)}, expected only {expected}")
    missing = sorted(set(fields) - set(values))
    missing = [name for name in missing if fields[name].default is dataclasses.MISSING]
    if missing:
        raise errors.UserError(f"{where}: key {', '.join(missing)} is missing; was another version used?")
    hints = typing.get_type_hints(config_class)
    return config_class(**{name: _from_json(hints[name], values[name], f"{where}.{name}") for name in values})
