import re
import sys

import pytest
import tqdm

from tfrecord_builder.program import progress_bar


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress_bar, "SECONDS", 0.0)


def test_without_a_terminal_progress_is_printed_as_lines_with_the_time_left(at_once, capsys):
    with progress_bar.ProgressBar(desc="work", total=4, unit=" s") as bar:
        for _ in range(4):
            bar.update()
            bar.refresh()
    captured = capsys.readouterr()
    assert captured.out == "" and "\r" not in captured.err
    lines = captured.err.splitlines()
    assert all(re.fullmatch(r"work: +\d+%\|[# \d]+\| \d/4 \[00:00<(00:00|\?), .*\]", line) for line in lines)
    assert {re.search(r"\d/4", line)[0] for line in lines} == {"0/4", "1/4", "2/4", "3/4", "4/4"}


def test_without_a_terminal_a_short_loop_prints_nothing(capsys):
    assert list(progress_bar.ProgressBar(range(3), desc="work")) == [0, 1, 2]
    with progress_bar.ProgressBar.wrapattr(sys.stdin, "read", 5, desc="read"):
        pass
    assert capsys.readouterr().err == ""


def test_lines_of_a_nested_bar_have_no_control_characters(at_once, capsys):
    for _ in progress_bar.ProgressBar(range(2), desc="outer"):
        for _ in progress_bar.ProgressBar(range(2), desc="inner"):
            pass
    written = capsys.readouterr().err
    assert not set(written) & {"\r", "\x1b"}
    assert {line.split(":")[0] for line in written.splitlines()} == {"outer", "inner"}


def test_messages_during_progress_stay_on_their_own_lines(at_once, capsys):
    with progress_bar.ProgressBar(desc="work", total=2) as bar:
        tqdm.tqdm.write("warning: quiet", file=sys.stderr)
        bar.update()
    assert capsys.readouterr().err.splitlines().count("warning: quiet") == 1


def test_in_a_terminal_one_line_is_redrawn(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar.ProgressBar(desc="work", total=2) as bar:
        bar.update(2)
    drawn = capsys.readouterr().err
    assert drawn.count("\n") == 1 and drawn.split("\r")[-1].startswith("work: 100%|")


def test_a_disabled_bar_prints_nothing(at_once, capsys):
    list(progress_bar.ProgressBar(range(3), disable=True))
    assert capsys.readouterr().err == ""
