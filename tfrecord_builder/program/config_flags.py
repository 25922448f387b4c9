"""Defines command-line flags from the fields of frozen dataclasses (for JSON see config_json):

    @dataclasses.dataclass(frozen=True)
    class OptimizerConfig(config_flags.Checked):
        learning_rate: float = config_flags.setting(0.1, "initial learning rate", positive=True)

Values from flags, JSON and code undergo the same checks. A field without `setting` is a JSON key, not a flag.
A field whose default is a config is a section: the section's settings are flags too.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Optional, TypeVar

from absl import flags

from tfrecord_builder import errors
from tfrecord_builder.program import config_json, urls

Config = TypeVar("Config")
RARELY_NEEDED = "Rarely needed"  # heading in --helpfull for the flags that --help omits
_BOOLEANS = {"true": True, "false": False}


@dataclasses.dataclass(frozen=True)
class Setting:
    """The help text and allowed values of a field; if the field is a tuple, each element is checked."""

    help: str  # one line for --help, including the unit
    choices: Optional[Sequence] = None
    minimum: Optional[float] = None  # inclusive
    maximum: Optional[float] = None  # inclusive
    positive: bool = False  # rejects zero and negative values
    required: bool = False  # rejects None and empty values
    not_empty: bool = False  # rejects `--flag=`, which would mean None in an Optional[...] field
    training_only: bool = False  # the value may be changed when training is resumed
    alternative: str = ""  # another flag, ignored in flag files if this flag is on the command line
    # Rejects paths with a scheme (gs://, s3://). Must be set unless the path is opened by files.py.
    local: bool = False
    # Set for directories of checkpoints or SavedModels: rejects remote paths and TensorFlow's wildcards.
    checkpoints: bool = False
    presets: Optional[Mapping[str, Mapping[str, Any]]] = None  # {value: {other flag: its new default}}

    def describe(self) -> str:
        """Returns the help text, with the choices if there are any."""
        return f"{self.help}; one of: {', '.join(map(str, self.choices))}" if self.choices else self.help

    def find_problem(self, value: Any) -> Optional[str]:
        """Returns None if the value is allowed, otherwise a description of the allowed values."""
        for item in value if isinstance(value, tuple) else (value,):
            if item is None:
                continue
            if self.choices is not None and item not in self.choices:
                return f"expected one of {', '.join(map(str, self.choices))}"
            if (self.local or self.checkpoints) and urls.is_remote(item):
                return urls.EXPECTED_LOCAL
            if self.checkpoints and (special := re.search(r"[][*?\\]", item)):
                return f"expected a path without {special[0]}, a wildcard in TensorFlow; rename the directory"
            if isinstance(item, (int, float)) and not self._is_in_range(item):
                return f"expected {self._format_range()}"
        return None

    def _is_in_range(self, number: float) -> bool:
        return (
            (isinstance(number, int) or math.isfinite(number))  # an int may be too large for a float
            and (self.minimum is None or number >= self.minimum)
            and (self.maximum is None or number <= self.maximum)
            and (not self.positive or number > 0)
        )

    def _format_range(self) -> str:
        limits = ["more than 0"] if self.positive else []
        for name, limit in (("at least", self.minimum), ("at most", self.maximum)):
            if limit is not None:
                limits.append(f"{name} {limit if isinstance(limit, int) else f'{limit:g}'}")
        return " and ".join(limits) or "a finite number"


def setting(default: Any, help: str, **options: Any) -> Any:
    """Returns a dataclass field with an immutable default and a Setting made from the options.

    If the default is None, the field must be Optional[...] and the help text must explain None.
    """
    return dataclasses.field(default=default, metadata={"setting": Setting(help, **options)})


def constant(default: Any, instead: str = "") -> Any:
    """Returns a dataclass field for a former flag, now constant; an old config.json may hold another value.

    `instead` tells users who still pass the flag what to do; by default, to leave the flag out.
    """
    instead = instead or f"its value is always {_to_text(default)}, so leave the flag out"
    return dataclasses.field(default=default, metadata={"constant": instead})


class Checked:
    """Base class for configs; checks the values of all settings when a config is created.

    Raises errors.UserError if a value is not allowed; the message states the flag and the allowed values.
    """

    REMOVED: ClassVar[Mapping[str, str]] = {}  # {name of a former field: what to use instead of its flag}

    def __post_init__(self):
        for field, described in _settings(type(self)):
            value = getattr(self, field.name)
            if described.required and not value:
                raise errors.UserError(f"--{field.name} is missing; pass it ({described.describe()})")
            problem = described.find_problem(value)
            if problem:
                raise errors.UserError(f"flag --{field.name}={_to_text(value)}: {problem}")


def define(
    config_class: type,
    flag_values: flags.FlagValues = flags.FLAGS,
    groups: Optional[Mapping[str, Sequence[str]]] = None,
) -> None:
    """Defines one flag per setting, under its heading from `groups` ({heading: flags}) or RARELY_NEEDED.

    If `groups` is None, the program's name is the heading for all flags.
    """
    for section in _sections(config_class).values():
        define(section, flag_values, groups)
    heading_of = {name: heading for heading, names in (groups or {}).items() for name in names}
    hints = typing.get_type_hints(config_class)
    for field, described in _settings(config_class):
        name, is_switch, parser = field.name, hints[field.name] is bool, _Parser(hints[field.name], described)
        flag = flags.Flag(parser, _Serializer(), name, field.default, described.describe(), boolean=is_switch)
        heading = heading_of.get(name, RARELY_NEEDED) if groups else sys.argv[0]
        flags.DEFINE_flag(flag, flag_values, module_name=heading)  # absl's help has one heading per module


def from_flags(config_class: type[Config], flag_values: flags.FlagValues = flags.FLAGS) -> Config:
    """Makes a config from the parsed flags; those on the command line override flag files.

    If a setting with an `alternative` is on the command line, the alternative in a flag file is ignored.
    A setting with presets changes the defaults of the flags that are converted after it. Raises
    errors.UserError if a value is not allowed, or the config's __post_init__ rejects a combination.
    """
    settings = list(_settings(config_class))
    for field, described in settings:
        for name, default in (described.presets or {}).get(flag_values[field.name].value, {}).items():
            flag_values.set_default(name, default)
    passed = {word.lstrip("-").partition("=")[0] for word in sys.argv[1:] if word.startswith("-")}
    ignored = {described.alternative for field, described in settings if field.name in passed} - passed
    names = [field.name for field, _ in settings if field.name not in ignored]
    sections = {name: from_flags(section, flag_values) for name, section in _sections(config_class).items()}
    return config_class(**sections, **{name: flag_values[name].value for name in names})


def find_removed(config_class: type[Checked]) -> dict[str, str]:
    """Returns {name of a former flag: what to use instead} for a config and its sections."""
    replacements = {**config_class.REMOVED, **_constants(config_class)}
    for section in _sections(config_class).values():
        replacements.update(find_removed(section))
    return replacements


def to_command_line(config: object) -> list[str]:
    """Returns a `--name=value` flag for each value in a config that differs from its default."""
    values = ((field, getattr(config, field.name)) for field, _ in _settings(type(config)))
    return [f"--{field.name}={_to_text(value)}" for field, value in values if value != field.default]


def with_training_settings(saved: Config, wanted: Config) -> Config:
    """Returns the saved config, but with the wanted config's training_only settings."""
    names = [field.name for field, described in _settings(type(saved)) if described.training_only]
    return dataclasses.replace(saved, **{name: getattr(wanted, name) for name in names})


def with_constants(wanted: Config, saved: Config) -> Config:
    """Returns the wanted config, but with the saved config's constants, including those in sections."""
    constants = {name: getattr(saved, name) for name in _constants(type(saved))}
    for name in _sections(type(saved)):
        constants[name] = with_constants(getattr(wanted, name), getattr(saved, name))
    return dataclasses.replace(wanted, **constants)


def is_flag(field: dataclasses.Field) -> bool:
    """Returns True if a config field is a flag."""
    return "setting" in field.metadata


def _settings(config_class: type) -> Iterator[tuple[dataclasses.Field, Setting]]:
    for field in dataclasses.fields(config_class):
        if is_flag(field):
            yield field, field.metadata["setting"]


def _constants(config_class: type) -> dict[str, str]:
    fields = dataclasses.fields(config_class)
    return {field.name: field.metadata["constant"] for field in fields if "constant" in field.metadata}


def _sections(config_class: type) -> dict[str, type[Checked]]:
    fields = dataclasses.fields(config_class)
    return {field.name: type(field.default) for field in fields if isinstance(field.default, Checked)}


class _Parser(flags.ArgumentParser):
    """Converts a flag's text to the type of its field and checks the value."""

    def __init__(self, field_type: Any, described: Setting):
        super().__init__()
        self.field_type, self.described = field_type, described

    def parse(self, argument: Any) -> Any:
        if self.described.not_empty and argument == "":
            raise ValueError("the value is empty; pass a value, or leave the flag out")
        value = _parse_text(argument, self.field_type) if isinstance(argument, str) else argument
        problem = self.described.find_problem(value)
        if problem:
            raise ValueError(problem)
        return value


class _Serializer(flags.ArgumentSerializer):
    def serialize(self, value: Any) -> str:
        return _to_text(value)


def _to_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _parse_text(text: str, field_type: Any) -> Any:
    inner = config_json.without_none(field_type)
    if inner is not None:
        return None if text == "" else _parse_text(text, inner)
    if typing.get_origin(field_type) is tuple:
        item_type = typing.get_args(field_type)[0]
        return tuple(_parse_text(item.strip(), item_type) for item in text.split(",") if item.strip())
    if field_type is str:
        return os.path.expanduser(text)  # shells do not expand ~ in --flag=~/a or in a list
    try:
        return _BOOLEANS[text.lower()] if field_type is bool else field_type(text)
    except (KeyError, ValueError):
        raise ValueError(f"expected {config_json.EXPECTED[field_type]}") from None
