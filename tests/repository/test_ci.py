""".ci/run: both Pythons, their results and the sum; anything that fails, fails it."""

from __future__ import annotations

import os
import shutil
import subprocess

import paths
import pytest
import scripts

# Two runs for one Python, as pytest -q ends them.
PASSED = "12 passed, 2 skipped, 5 warnings in 3.21s\n.\n3 passed, 1 skipped in 61.00s (0:01:01)"
FAILED = "2 failed, 10 passed, 1 error in 3.21s"
MAKE = r'echo "$@" >> words; cat "$3"; ! grep -q "failed\|No CPython" "$3"'


# Passed, failed and skipped, of CPython 3.11, of 3.12 and of both.
@pytest.mark.parametrize(
    "first, second, code, counts",
    [
        (PASSED, "14 passed in 8.00s", 0, [(15, 0, 3), (14, 0, 0), (29, 0, 3)]),
        (FAILED, PASSED, 1, [(10, 3, 0), (15, 0, 3), (25, 3, 3)]),
        (PASSED, FAILED, 1, [(15, 0, 3), (10, 3, 0), (25, 3, 3)]),
        (PASSED, "No CPython 3.12 was found", 1, [(15, 0, 3), (0, 0, 0), (15, 0, 3)]),
        (PASSED, "no tests ran in 0.01s", 1, [(15, 0, 3), (0, 0, 0), (15, 0, 3)]),
    ],
    ids=["passed", "failed on the first", "failed on the second", "no such Python", "no tests"],
)
def test_runs_both_and_ends_with_the_sum(first, second, code, counts, tmp_path):
    scripts.write(tmp_path, {"bin/make": MAKE})
    (tmp_path / "PYTHON=python3.11").write_text(f"{first}\n")
    (tmp_path / "PYTHON=python3.12").write_text(f"{second}\n")
    shutil.copytree(paths.ROOT / ".ci", tmp_path / ".ci")
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([tmp_path / ".ci/run"], env=environment, capture_output=True, text=True)
    assert done.returncode == code
    assert (tmp_path / "words").read_text().splitlines() == [
        "test-all VENV=.venv-3.11 PYTHON=python3.11",
        "test-long VENV=.venv-3.12 PYTHON=python3.12",
    ]
    heads = ("CPython 3.11: ", "CPython 3.12: ", "")
    assert done.stdout.splitlines()[-3:] == [
        f"{head}{passed} passed, {failed} failed, {skipped} skipped"
        for head, (passed, failed, skipped) in zip(heads, counts)
    ]
    none_passed = "CPython 3.12: no test has passed, expected all to\n"
    assert done.stderr == (none_passed if counts[1] == (0, 0, 0) else "")
