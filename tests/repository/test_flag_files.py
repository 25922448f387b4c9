"""Tests --help and flags/<corpus>/*.flags: the files parse, explain each flag and repeat no default value."""

import pathlib

import paths
import program_flags
import pytest

FLAGS = program_flags.ROOT / "flags"
FILES = [path.relative_to(FLAGS).as_posix() for path in paths.find_files("flags/**/*")]
# Corpora with flag files for models; the others only have flags for the build.
COMPLETE = {"aishell1", "demo", "manifest", "streaming", "thchs30", "whisper"}


@pytest.fixture(scope="module")
def parsed(program_answers):
    return {file: result for answer in program_answers.values() for file, result in answer["parsed"].items()}


@pytest.mark.parametrize(
    "module, num_headings, num_shown, num_flags",
    [
        ("estimator_asr.train", 8, 35, 60),
        ("tfrecord_builder.build", 6, 28, 34),
        ("estimator_asr.serve", 3, 10, 13),
    ],
)
def test_help_lists_the_flags_that_most_users_need(
    program_answers, module, num_headings, num_shown, num_flags
):
    headings = program_answers[module]["headings"]
    others = headings.pop("Rarely needed")
    shown = sum(map(len, headings.values()))
    assert (len(headings), shown, shown + len(others)) == (num_headings, num_shown, num_flags)


def test_flags_have_the_defaults_and_limits_of_the_table(program_answers):
    """After an intended change, write the table again (CONTRIBUTING.md)."""
    table = (paths.ROOT / "tests/data/flags.tsv").read_text(encoding="utf-8")
    assert program_flags.tabulate(program_answers).splitlines() == table.splitlines()


def test_each_corpus_has_its_files():
    corpora = {file.partition("/")[0] for file in FILES}
    names = set(program_flags.OF_FLAG_FILES) - {"punctuation.flags"}  # the same model suits other corpora
    files_of = {corpus: {f"{corpus}/{name}" for name in names} for corpus in corpora}
    files_of["punctuation"] = {"punctuation/build.flags", "punctuation/punctuation.flags"}
    files_of["demo"].add("demo/punctuation.flags")
    required = {f"{corpus}/build.flags" for corpus in corpora}.union(*(files_of[each] for each in COMPLETE))
    required |= files_of["punctuation"]
    assert required <= set(FILES) <= set().union(*files_of.values())


@pytest.mark.parametrize("file", FILES)
def test_parses_and_holds_differences_only(parsed, file):
    result = parsed[file]
    assert "error" not in result, result
    assert result["words"] == []  # otherwise, a line is not a flag
    _, needed = program_flags.OF_FLAG_FILES[pathlib.Path(file).name]
    names = {word[2:].partition("=")[0] for word in needed}
    values = {name: value for name, value in result["values"].items() if name not in names}
    assert values.get("model") == (None if file.endswith("build.flags") else repr(pathlib.Path(file).stem))
    same = {name for name, value in values.items() if value == result["defaults"][name]}
    assert len(values) > len(same) and same <= {"corpus", "model"}  # these may equal the default
    assert 0.0005 < float(values.get("learning_rate", 0.001)) < 0.004  # finds a misplaced decimal point
    assert "learning_rate_batch_size" not in values


@pytest.mark.parametrize("file", FILES)
def test_a_comment_stands_above_every_flag(file):
    above = ""
    for line in (FLAGS / file).read_text(encoding="utf-8").splitlines():
        assert line == "" or line.startswith(("#", "--")), line
        assert not line.startswith("--") or above.startswith("#"), f"{line}: no reason in a comment above"
        above = line if not line.startswith("--") else above


@pytest.mark.parametrize("file", [file for file in FILES if not file.endswith("build.flags")])
def test_steps_on_the_command_line_beat_the_epochs_of_the_file(parsed, file):
    assert "error" not in parsed[f"{file} --train_steps=100"]
