"""The small demo is interrupted once and run again; then all its output is checked."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import paths
import programs
import pytest

from estimator_asr.demo import __main__ as demo
from tfrecord_builder import errors
from tfrecord_builder.data import marks

NUM_STAGES = 15

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def start(directory, *words):
    command = [sys.executable, "-m", "estimator_asr.demo", f"--output_dir={directory}", *words]
    return subprocess.Popen(
        command, cwd=paths.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
    )


def call(directory, *words):
    process = start(directory, *words)
    output, _ = process.communicate()
    return process.returncode, output


class Finished(NamedTuple):
    """A finished demo: its directory, the interrupted run's exit code, and the output of both runs."""

    directory: pathlib.Path
    exit_code: int
    first: str
    second: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A demo that was interrupted in the first steps of training and then run again."""
    directory = tmp_path_factory.mktemp("demo") / "demo"
    interrupted = start(directory, "--size=small")
    lines = _read_until(interrupted, r"parameters: ")
    programs.wait_until((directory / "acoustic" / "checkpoint").exists)  # written just before the first step
    time.sleep(0.3)
    interrupted.send_signal(signal.SIGTERM)
    lines.append(interrupted.communicate()[0])
    exit_code, output = call(directory, "--size=small")
    assert exit_code == 0, output
    return Finished(directory, interrupted.returncode, "".join(lines), output)


def _read_until(process, pattern):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(pattern, line):
            return lines
    raise AssertionError(f"no line matches {pattern}:\n{''.join(lines)}")


def test_every_stage_prints_its_title_and_command(finished):
    printed = finished.first + finished.second
    for i in range(1, NUM_STAGES + 1):
        assert re.search(rf"^\[{i}/{NUM_STAGES}\] .+\n\$ python -m [\w.]+ --", printed, re.MULTILINE)


def test_an_interrupted_demo_continues_where_it_stopped(finished):
    assert finished.exit_code == 143
    assert "[6/15]" in finished.first and "[7/15]" not in finished.first
    heads = re.findall(r"^\[(\d+)/\d+\] .*: finished earlier, in \d+ s$", finished.second, re.MULTILINE)
    assert heads == ["1", "2", "3", "4", "5"]


def test_interrupted_training_continues_from_its_last_step(finished):
    assert "/acoustic: new model" in finished.first
    assert re.findall(r"training: (\d+) steps", finished.first) == ["4"]
    steps = re.findall(r"/acoustic: continues from step (\d+)$", finished.second, re.MULTILINE)
    assert steps in (["1"], ["2"], ["3"])


def test_prints_transcripts_rates_durations_and_next_commands_at_the_end(finished):
    output = finished.second
    counts = r"\d+ of \d+ +\d+ of \d+"
    assert len(re.findall(rf"^  spoken-test-\d+ .*[。？！] .* {counts}$", output, re.MULTILINE)) == 10
    rate = r"error rate +\d+\.\d\d % \(95 % interval \d+\.\d\d to \d+\.\d\d %\)"
    for name in ("acoustic  token", "language  character", "cascade   token", "cascade   character"):
        assert re.search(rf"^  {name} {rate}$", output, re.MULTILINE), name
    for name in ("commas stops questions", "all marks"):
        assert re.search(
            rf"^  {name} +F1 \d+\.\d\d %.*, precision .* %, recall .* %$", output, re.MULTILINE
        ), name
    assert re.search(r"^  total +\d+$", output, re.MULTILINE)
    assert "tensorboard.main --logdir=" in output and "YOUR.wav" in output


def test_the_language_model_of_even_a_small_demo_beats_chance(finished):
    """If evaluation read the test split with another vocabulary, the error rate would be higher."""
    directory = finished.directory
    metrics = json.loads((directory / "report" / "language" / "metrics.json").read_text())
    assert metrics["character_error_rate"]["rate"] < 0.5


def test_every_transcript_ends_with_a_mark(finished):
    lines = (finished.directory / "transcripts.jsonl").read_text("utf-8").splitlines()
    results = list(map(json.loads, lines))
    assert len(results) == 10
    assert all(result["punctuated"][-1:] in set(marks.MARKS) for result in results)
    assert any(result["transcript"] for result in results)


def test_all_files_are_in_the_output_directory(finished):
    directory = finished.directory
    models, data = {"acoustic", "language", "punctuation"}, {"corpus", "data", "marks", "sentences", "text"}
    names = {"export", "finished", "report", "size.txt", "transcripts.jsonl"}
    assert set(os.listdir(directory)) == {*models, *data, *names}
    assert len(list((directory / "corpus" / "wav").rglob("*.wav"))) == 76
    assert len(list((directory / "finished").iterdir())) == NUM_STAGES


def test_a_second_run_does_nothing_and_prints_the_same_tables(finished):
    directory, output = finished.directory, finished.second
    began = time.monotonic()
    exit_code, again = call(directory, "--size=small")
    assert exit_code == 0
    assert time.monotonic() - began < 15
    assert again.count("finished earlier, in") == NUM_STAGES
    assert again.split("\n\n")[1:] == output.split("\n\n")[-5:]


def test_under_nohup_closing_the_terminal_does_not_end_the_demo():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        demo.exit_on(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_missing_flag_files_are_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "__file__", str(tmp_path / "estimator_asr" / "demo" / "__main__.py"))
    monkeypatch.chdir(tmp_path)
    message = "the flag files are missing from .*flags/demo; install the package again or run from a checkout"
    with pytest.raises(errors.UserError, match=message):
        demo.find_flags_dir()
