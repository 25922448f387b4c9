"""flags/<corpus>/*.flags: each parses, says why, and holds nothing that is the default anyway."""

from __future__ import annotations

import pathlib
import sys

import program_flags
import pytest
from absl import flags

from estimator_asr.experiment import config, training_config
from tfrecord_builder.settings import config_flags

FLAGS = program_flags.ROOT / "flags"
# With models of their own; the others only build.
COMPLETE = {"aishell1", "demo", "manifest", "thchs30", "whisper"}
# Said even where it is the default: which model it is.
MAY_BE_DEFAULT = {"model"}
FILES = sorted(str(path.relative_to(FLAGS)) for path in FLAGS.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def parsed(program_answers):
    return {file: result for answer in program_answers.values() for file, result in answer["parsed"].items()}


def test_every_corpus_says_how_it_is_built():
    corpora = {path.name for path in FLAGS.iterdir()}
    assert corpora >= COMPLETE
    assert {f"{corpus}/build.flags" for corpus in corpora} <= set(FILES)


def test_the_corpora_of_the_house_have_all_three_files():
    assert {f"{corpus}/{name}" for corpus in COMPLETE for name in program_flags.OF_FLAG_FILES} <= set(FILES)


def test_every_file_is_of_a_program():
    assert {pathlib.Path(file).name for file in FILES} <= set(program_flags.OF_FLAG_FILES)


@pytest.mark.parametrize("file", FILES)
def test_parses_and_holds_differences_only(parsed, file):
    result = parsed[file]
    assert "error" not in result, result
    assert result["words"] == []  # a line that is no flag would be left over
    _, needed = program_flags.OF_FLAG_FILES[pathlib.Path(file).name]
    given = {name: value for name, value in result["given"].items() if f"--{name}" not in " ".join(needed)}
    assert given
    assert {name for name in given if given[name] == result["defaults"][name]} <= MAY_BE_DEFAULT


@pytest.mark.parametrize("file", FILES)
def test_model_files_name_their_model(parsed, file):
    name = pathlib.Path(file).stem
    if name != "build":
        assert parsed[file]["given"]["model"] == repr(name)


# Rates of the files when the rate still was base rate x mean utterances per batch / denominator. The means
# are of the corpora in docs/results.md; for AISHELL-1 and THCHS-30, of their published numbers and lengths.
SCALED = {
    "aishell1/acoustic.flags": 0.001 * 82.8 / 80,
    "aishell1/language.flags": 0.002 * 331.98 / 360,
    "demo/acoustic.flags": 0.002 * 14.52 / 15,
    "demo/language.flags": 0.002 * 92.31 / 100,
    "manifest/acoustic.flags": 0.002 * 22.68 / 23,
    "manifest/language.flags": 0.002 * 167.04 / 160,
    "thchs30/acoustic.flags": 0.001 * 16.2 / 18,
    "thchs30/language.flags": 0.002 * 58.38 / 80,
}


@pytest.mark.parametrize("file", sorted(SCALED))
def test_the_rate_is_the_one_that_the_file_was_measured_with(parsed, file):
    assert float(parsed[file]["given"]["learning_rate"]) == pytest.approx(SCALED[file], rel=0.006)
    assert "learning_rate_batch_size" not in parsed[file]["given"]


@pytest.mark.parametrize("file", FILES)
def test_a_comment_stands_above_every_flag(file):
    above = ""
    for line in (FLAGS / file).read_text(encoding="utf-8").splitlines():
        assert line == "" or line.startswith(("#", "--")), line
        assert not line.startswith("--") or above.startswith("#"), f"{line}: no reason in a comment above"
        above = line if not line.startswith("--") else above


def test_steps_on_the_command_line_beat_the_epochs_of_the_file(monkeypatch):
    words = ["train", "--train_steps=100", f"--flagfile={FLAGS / 'manifest' / 'acoustic.flags'}"]
    monkeypatch.setattr(sys, "argv", words)
    flag_values = flags.FlagValues()
    flags.DEFINE_string("flagfile", "", "", flag_values=flag_values)
    for section in config.SECTIONS.values():
        config_flags.define(section, flag_values)
    flag_values(words)
    given = config_flags.from_flags(training_config.TrainConfig, flag_values)
    assert (given.train_steps, given.train_epochs, given.save_checkpoints_steps) == (100, None, 2500)
