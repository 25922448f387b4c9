"""A frozen dataclass is the one list of settings: its fields become flags (and JSON, see config_json).

    @dataclasses.dataclass(frozen=True)
    class OptimizerConfig:
        learning_rate: float = config_flags.setting(0.1, "initial learning rate", positive=True)

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
from collections.abc import Sequence
from typing import Any, Optional, TypeVar

from absl import flags

from tfrecord_builder import config_json, errors

Config = TypeVar("Config")
# Keys of a field's metadata.
_TRAINING_ONLY = "training_only"
_ALTERNATIVE = "alternative"


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
    former_name: str = "",
    training_only: bool = False,
    alternative: str = "",
) -> Any:
    """Describes a field of a config: its default, what it means and which values it takes.

    Args:
      default: immutable; None needs an Optional[...] field and means what the help says.
      help: one line for `--help`, with the unit.
      choices: the allowed values, for a tuple field those of each element.
      minimum: lowest allowed value, inclusive. For a tuple field the ranges hold for each element.
      maximum: highest allowed value, inclusive.
      positive: whether zero and below are refused.
      former_name: of the field in earlier versions. JSON may hold it; a flag of that name is refused.
      training_only: whether a model that was trained with one value may continue with another one.
      alternative: another field, of which a flag file's value does not count beside this one on the command
        line.
    """
    rules = _Rules(help, None if choices is None else tuple(choices), minimum, maximum, positive)
    metadata = {"rules": rules, config_json.FORMER_NAME: former_name}
    metadata.update({_TRAINING_ONLY: training_only, _ALTERNATIVE: alternative})
    return dataclasses.field(default=default, metadata=metadata)


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
        former_name = field.metadata[config_json.FORMER_NAME]
        if former_name and former_name not in flag_values:
            flags.DEFINE_flag(_make_former_flag(former_name, field.name, rules), flag_values)


def from_flags(config_class: type[Config], flag_values: flags.FlagValues = flags.FLAGS) -> Config:
    """Makes a config of the parsed flags; the command line beats an alternative in a flag file.

    Raises:
      errors.UserError: a value is out of its range, or the config's own __post_init__ refuses a combination.
    """
    fields = [field for field, _, _ in _settings(config_class)]
    given = {word.lstrip("-").partition("=")[0] for word in sys.argv[1:] if word.startswith("-")}
    beaten = {field.metadata[_ALTERNATIVE] for field in fields if field.name in given} - given
    config = config_class(
        **{field.name: flag_values[field.name].value for field in fields if field.name not in beaten}
    )
    validate(config)
    return config


def with_training_settings(saved: Config, wanted: Config) -> Config:
    """Returns the saved config with the training_only settings of the wanted one."""
    names = [field.name for field, _, _ in _settings(type(saved)) if field.metadata[_TRAINING_ONLY]]
    return dataclasses.replace(saved, **{name: getattr(wanted, name) for name in names})


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
        (isinstance(number, int) or math.isfinite(number))  # an int may be too large for a float
        and (rules.minimum is None or number >= rules.minimum)
        and (rules.maximum is None or number <= rules.maximum)
        and (not rules.positive or number > 0)
    )


def _range_text(rules: _Rules) -> str:
    limits = ["more than 0"] if rules.positive else []
    limits += [] if rules.minimum is None else [f"at least {_number_text(rules.minimum)}"]
    limits += [] if rules.maximum is None else [f"at most {_number_text(rules.maximum)}"]
    return " and ".join(limits) or "a finite number"


def _number_text(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _make_flag(field: dataclasses.Field, rules: _Rules, field_type: Any) -> flags.Flag:
    help_text = rules.help
    if rules.choices is not None:
        help_text += f"; one of: {', '.join(map(str, rules.choices))}"
    parser = _Parser(field_type, rules)
    return flags.Flag(parser, _Serializer(), field.name, field.default, help_text, boolean=field_type is bool)


def _make_former_flag(former_name: str, name: str, rules: _Rules) -> flags.Flag:
    help_text = f"refused; it is --{name} now"
    parser = _FormerParser(name, rules)
    return flags.Flag(parser, _Serializer(), former_name, None, help_text)


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


class _FormerParser(flags.ArgumentParser):
    """Refuses a flag of an earlier version and names the one that replaces it."""

    def __init__(self, name: str, rules: _Rules):
        super().__init__()
        self.name, self.rules = name, rules

    def parse(self, argument: Any) -> Any:
        raise ValueError(f"the flag is replaced by --{self.name} ({self.rules.help}); give that instead")


class _Serializer(flags.ArgumentSerializer):
    def serialize(self, value: Any) -> str:
        return _to_text(value)


def _to_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


_BOOLEANS = {"true": True, "false": False}


def _parse_text(text: str, field_type: Any) -> Any:
    if config_json.is_optional(field_type):
        return None if text == "" else _parse_text(text, config_json.without_none(field_type))
    if typing.get_origin(field_type) is tuple:
        item_type = typing.get_args(field_type)[0]
        return tuple(_parse_text(item.strip(), item_type) for item in text.split(",") if item.strip())
    try:
        return _BOOLEANS[text.lower()] if field_type is bool else field_type(text)
    except (KeyError, ValueError):
        raise ValueError(f"expected {config_json.EXPECTED[field_type]}") from None
