""".ci/run: both Pythons, their results and the sum; anything that fails, fails it."""

from __future__ import annotations

import os
import shutil
import subprocess

import paths
import pytest

# Quick and slow tests of one Python, as pytest -q ends them.
PASSED = "12 passed, 2 skipped, 5 warnings in 3.21s\n.\n3 passed, 1 skipped in 61.00s (0:01:01)"
FAILED = "2 failed, 10 passed, 1 error in 3.21s"


@pytest.fixture
def run(tmp_path):
    """Runs a copy of the script with a make that prints what is given for each Python, and fails for some."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(paths.ROOT / ".ci" / "run", tmp_path / ".ci")
    (tmp_path / "bin").mkdir()

    def run(printed, failing=()):
        cases = [
            f"*3.{minor}) echo '{text}'; exit {int(minor in failing)} ;;" for minor, text in printed.items()
        ]
        script = '#!/bin/sh\necho "$@" >> words\ncase $3 in\n' + "\n".join(cases) + "\nesac\n"
        (tmp_path / "bin" / "make").write_text(script)
        (tmp_path / "bin" / "make").chmod(0o755)
        environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run([tmp_path / ".ci/run"], env=environment, capture_output=True, text=True)

    return run


def test_runs_the_slow_tests_on_one_and_ends_with_the_sum(run, tmp_path):
    completed = run({11: PASSED, 12: "14 passed in 8.00s"})
    assert completed.returncode == 0
    assert (tmp_path / "words").read_text().splitlines() == [
        "test-all VENV=.venv-3.11 PYTHON=python3.11",
        "test-long VENV=.venv-3.12 PYTHON=python3.12",
    ]
    assert completed.stdout.splitlines()[-3:] == [
        "CPython 3.11: 15 passed, 0 failed, 3 skipped",
        "CPython 3.12: 14 passed, 0 failed, 0 skipped",
        "29 passed, 0 failed, 3 skipped",
    ]


@pytest.mark.parametrize("failing", [11, 12])
def test_a_failure_on_either_fails_it_after_both_have_run(run, failing):
    completed = run({11: PASSED, 12: PASSED, failing: FAILED}, [failing])
    assert completed.returncode == 1
    assert completed.stdout.splitlines()[-1] == "25 passed, 3 failed, 3 skipped"


def test_a_python_that_is_missing_fails_it(run):
    completed = run({11: PASSED, 12: "No CPython 3.12 was found: install one"}, [12])
    assert completed.returncode == 1
    assert "CPython 3.12: no test has passed, expected all to" in completed.stderr


def test_no_tests_fail_it(run):
    completed = run({11: PASSED, 12: "no tests ran in 0.01s"})
    assert completed.returncode == 1
    assert "CPython 3.12: no test has passed, expected all to" in completed.stderr
