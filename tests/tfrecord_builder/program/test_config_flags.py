import dataclasses
import sys
from typing import Optional

import pytest
from absl import flags

from tfrecord_builder import errors
from tfrecord_builder.program import config_flags


@dataclasses.dataclass(frozen=True)
class TrainConfig(config_flags.Checked):
    optimizer: str = config_flags.setting("adam", "update rule", choices=("adam", "momentum"))
    dropout: float = config_flags.setting(0.1, "fraction of units that is dropped", minimum=0, maximum=0.9)
    train_steps: Optional[int] = config_flags.setting(None, "steps; none for no limit", positive=True)
    xla: bool = config_flags.setting(True, "compile with XLA")
    boundary_epochs: tuple[int, ...] = config_flags.setting((5, 10), "where the rate drops", minimum=1)
    corpus_dir: tuple[str, ...] = config_flags.setting((), "directories")

    def __post_init__(self):
        super().__post_init__()
        if self.xla and self.optimizer == "momentum":
            raise errors.UserError("--xla with --optimizer=momentum: cannot be compiled; pass --noxla")


def parse(*arguments, config_class=TrainConfig):
    flag_values = flags.FlagValues()
    config_flags.define(config_class, flag_values)
    flag_values(["program", *arguments])
    return config_flags.from_flags(config_class, flag_values)


def test_settings_without_flags_have_their_defaults():
    assert parse() == TrainConfig()


def test_each_type_is_parsed():
    config = parse(
        "--optimizer=momentum",
        "--dropout=0",
        "--train_steps=300",
        "--noxla",
        "--boundary_epochs=1, 2,3",
        "--corpus_dir=a,b",
    )
    assert config == TrainConfig("momentum", 0.0, 300, False, (1, 2, 3), ("a", "b"))
    assert isinstance(config.dropout, float)


@pytest.mark.parametrize("written", ["--corpus_dir={}", "--flagfile={}"])
def test_a_tilde_is_expanded_to_the_home_directory(monkeypatch, tmp_path, written):
    monkeypatch.setenv("HOME", "/home/me")
    word = "~/a,~,/b~/c, ~/d,gs://~/e"
    if "flagfile" in written:
        (tmp_path / "a.flags").write_text(f"--corpus_dir={word}\n", encoding="utf-8")
        word = tmp_path / "a.flags"
    config = parse(written.format(word))
    assert config.corpus_dir == ("/home/me/a", "/home/me", "/b~/c", "/home/me/d", "gs://~/e")


def test_empty_text_is_parsed_as_none_or_an_empty_tuple():
    config = parse("--train_steps=", "--boundary_epochs=")
    assert config.train_steps is None and config.boundary_epochs == ()


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--optimizer=sgd", "flag --optimizer=sgd: expected one of adam, momentum"),
        ("--dropout=1", "flag --dropout=1: expected at least 0 and at most 0.9"),
        ("--dropout=nan", "flag --dropout=nan: expected at least 0 and at most 0.9"),
        ("--dropout=much", "flag --dropout=much: expected a number"),
        ("--train_steps=0", "flag --train_steps=0: expected more than 0"),
        ("--train_steps=1.5", "flag --train_steps=1.5: expected a whole number"),
        ("--boundary_epochs=3,0", "flag --boundary_epochs=3,0: expected at least 1"),
        ("--xla=perhaps", "flag --xla=perhaps: expected true or false"),
    ],
)
def test_an_invalid_flag_is_named_with_the_expected_values(argument, message):
    with pytest.raises(flags.IllegalFlagValueError) as caught:
        parse(argument)
    assert str(caught.value) == message


def test_values_from_code_get_the_same_errors_as_flags():
    with pytest.raises(errors.UserError) as caught:
        TrainConfig(boundary_epochs=(3, 0))
    assert str(caught.value) == "flag --boundary_epochs=3,0: expected at least 1"
    with pytest.raises(errors.UserError, match="flag --dropout=inf: expected at least 0"):
        TrainConfig(dropout=float("inf"))


def test_a_number_without_limits_must_be_finite():
    @dataclasses.dataclass(frozen=True)
    class Config(config_flags.Checked):
        snr_db: float = config_flags.setting(0.0, "noise level in dB")

    with pytest.raises(errors.UserError, match="flag --snr_db=nan: expected a finite number"):
        Config(float("nan"))


def test_contradicting_flags_are_both_named():
    with pytest.raises(errors.UserError, match="--xla with --optimizer=momentum"):
        parse("--optimizer=momentum")


@dataclasses.dataclass(frozen=True)
class ShowConfig(config_flags.Checked):
    data_dir: tuple[str, ...] = config_flags.setting((), "data directories", required=True)
    format: Optional[str] = config_flags.setting(None, "output", choices=("tsv", "json"), required=True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--format=tsv"], "--data_dir is missing; pass it (data directories)"),
        (["--data_dir=", "--format=tsv"], "--data_dir is missing; pass it (data directories)"),
        (["--data_dir=a"], "--format is missing; pass it (output; one of: tsv, json)"),
    ],
)
def test_a_missing_required_flag_is_named_with_its_help(arguments, message):
    with pytest.raises(errors.UserError) as caught:
        parse(*arguments, config_class=ShowConfig)
    assert str(caught.value) == message


def test_a_field_without_setting_is_not_a_flag():
    @dataclasses.dataclass(frozen=True)
    class Config:
        hidden: int = 3
        shown: int = config_flags.setting(4, "shown")

    flag_values = flags.FlagValues()
    config_flags.define(Config, flag_values)
    assert "shown" in flag_values and "hidden" not in flag_values


def test_help_of_the_program_lists_the_flags_with_choices_and_defaults():
    flag_values = flags.FlagValues()
    config_flags.define(TrainConfig, flag_values)
    shown = " ".join(flag_values.main_module_help().split())
    assert "--optimizer: update rule; one of: adam, momentum (default: 'adam')" in shown
    assert "--[no]xla: compile with XLA (default: 'True')" in shown
    assert "--boundary_epochs: where the rate drops (default: '5,10')" in shown


@dataclasses.dataclass(frozen=True)
class Length(config_flags.Checked):
    steps: Optional[int] = config_flags.setting(None, "steps", alternative="epochs")
    epochs: Optional[int] = config_flags.setting(None, "epochs", alternative="steps")

    def __post_init__(self):
        if self.steps and self.epochs:
            raise errors.UserError("both are given")


@pytest.mark.parametrize(
    "command_line, file, want",
    [
        ("--flagfile=FILE", "--epochs=7", Length(epochs=7)),
        ("--flagfile=FILE --steps=100", "--epochs=7", Length(steps=100)),
        ("--steps=100 --flagfile=FILE", "--epochs=7", Length(steps=100)),
        ("--flagfile=FILE --steps 100", "--epochs=7", Length(steps=100)),
        ("--flagfile=FILE --epochs=3", "--epochs=7", Length(epochs=3)),
        ("--flagfile=FILE --steps=100 --epochs=3", "--epochs=7", None),
        ("--flagfile=FILE", "--epochs=7\n--steps=5", None),
    ],
)
def test_the_command_line_overrides_the_alternative_in_a_flag_file(
    tmp_path, monkeypatch, command_line, file, want
):
    (tmp_path / "long.flags").write_text(f"{file}\n", encoding="utf-8")
    words = command_line.replace("FILE", str(tmp_path / "long.flags")).split()
    monkeypatch.setattr(sys, "argv", ["program", *words])
    if want:
        assert parse(*words, config_class=Length) == want
    else:
        with pytest.raises(errors.UserError, match="both are given"):
            parse(*words, config_class=Length)
