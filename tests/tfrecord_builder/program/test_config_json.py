import dataclasses
from typing import Optional

import pytest

from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, config_json


@dataclasses.dataclass(frozen=True)
class TrainConfig(config_flags.Checked):
    optimizer: str = config_flags.setting("adam", "update rule")
    dropout: float = config_flags.setting(0.1, "fraction of units that is dropped", minimum=0, maximum=0.9)
    train_steps: Optional[int] = config_flags.setting(None, "steps; none for no limit")
    boundary_epochs: tuple[int, ...] = config_flags.setting((5, 10), "where the rate drops")


@dataclasses.dataclass(frozen=True)
class Shard:
    file: str
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class Info:
    train: Optional[TrainConfig]
    lengths: dict[int, int]
    splits: dict[str, Shard]
    shards: tuple[Shard, ...]
    mean: tuple[float, ...]
    note: str = ""


def test_json_round_trip_keeps_types_of_keys_and_nested_configs():
    info = Info(
        TrainConfig(dropout=0.2), {7: 1, 12: 3}, {"dev": Shard("a", 1)}, (Shard("b", 2),), (0.5, -1.0)
    )
    values = config_json.to_json_dict(info)
    assert values["lengths"] == {"7": 1, "12": 3}
    assert values["shards"] == [{"file": "b", "num_bytes": 2}]
    assert config_json.from_json_dict(Info, values) == info


def test_json_may_omit_defaults_and_write_floats_as_integers():
    values = {"train": None, "lengths": {}, "splits": {}, "shards": [], "mean": [1]}
    info = config_json.from_json_dict(Info, values)
    assert info == Info(None, {}, {}, (), (1.0,)) and isinstance(info.mean[0], float)
    assert config_json.from_json_dict(TrainConfig, {"dropout": 0}) == TrainConfig(dropout=0.0)


def test_an_empty_key_is_unknown():
    with pytest.raises(errors.UserError, match="Shard: unknown key ; the known keys are file, num_bytes"):
        config_json.from_json_dict(Shard, {"file": "a", "": 3})


@pytest.mark.parametrize(
    "values, message",
    [
        ({"dropuot": 0.5}, "TrainConfig: unknown key dropuot; the known keys are optimizer, dropout"),
        ({"dropout": "0.5"}, "TrainConfig.dropout is '0.5', expected a number"),
        ({"train_steps": True}, "TrainConfig.train_steps is True, expected a whole number"),
        ({"boundary_epochs": 3}, "TrainConfig.boundary_epochs is 3, expected a list"),
        ({"dropout": 5}, "flag --dropout=5.0: expected at least 0 and at most 0.9"),
    ],
)
def test_invalid_json_is_refused_and_the_key_is_named(values, message):
    with pytest.raises(errors.UserError) as caught:
        config_json.from_json_dict(TrainConfig, values)
    assert message in str(caught.value)


def test_errors_in_nested_json_name_the_place():
    values = {"train": None, "lengths": {}, "splits": {}, "shards": [{"file": "b"}], "mean": []}
    with pytest.raises(errors.UserError, match="Info.shards: key num_bytes is missing"):
        config_json.from_json_dict(Info, values)
    with pytest.raises(errors.UserError, match="Info.splits is 3, expected an object"):
        config_json.from_json_dict(Info, {**values, "splits": 3})
    with pytest.raises(errors.UserError, match="Info.lengths: key 'x' is not a whole number"):
        config_json.from_json_dict(Info, {**values, "lengths": {"x": 3}})
    with pytest.raises(errors.UserError, match=r"Info is \[\], expected an object"):
        config_json.from_json_dict(Info, [])


@pytest.mark.parametrize(
    "text, said",
    [
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a":' * 100_000, "it is nested too deeply"),
        ("1" * 301, r"an integer has too many digits \(301\)"),
        ("", "Expecting value"),
    ],
)
def test_invalid_json_text_is_a_value_error(text, said):
    with pytest.raises(ValueError, match=said):
        config_json.parse(text)


def test_large_integers_are_exact():
    assert config_json.parse(b"[12345678901234567890123, -1]") == [12345678901234567890123, -1]


def test_large_values_are_shortened_in_messages():
    with pytest.raises(errors.UserError) as raised:
        config_json.from_json_dict(Shard, {"file": [["deep"]] * 1000, "num_bytes": 1})
    assert len(str(raised.value)) < 120
