"""Tests .ci/run, which runs the demo and the tests with each Python version and prints the totals."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import paths
import pytest
import scripts

# Last lines of `pytest -q`; PASSED contains two runs.
PASSED = "12 passed, 2 skipped, 5 warnings in 3.21s\n.\n3 passed, 1 skipped in 61.00s (0:01:01)"
FAILED = "2 failed, 10 passed, 1 error in 3.21s"
# A fake make: logs its arguments and, for tests, prints the file named after its argument PYTHON=...
MAKE = """echo "$@" >> words
[ "$1" != test-all ] || echo "$TESTS_END" > tests_end
case "$1" in
  demo) [ ! -e no_demo ] ;;
  test*) cat "$3"; ! grep -q "failed\\|No CPython" "$3" ;;
esac"""
NOT_ROOT = {"bin/id": 'case "$1" in -u) echo 1000 ;; *) echo somebody ;; esac'}
VERSIONS = ("3.11", "3.10", "3.12", "3.13")


@pytest.fixture
def clone(tmp_path):
    shutil.copytree(paths.ROOT / ".ci", tmp_path / ".ci")
    scripts.write(tmp_path, {"bin/make": MAKE, **NOT_ROOT})
    for version in VERSIONS:
        (tmp_path / f"PYTHON=python{version}").write_text("14 passed in 8.00s\n")
    return tmp_path


def run(clone, **variables):
    environment = {**os.environ, "PATH": f"{clone / 'bin'}:{os.environ['PATH']}", **variables}
    return subprocess.run(["bash", clone / ".ci/run"], env=environment, capture_output=True, text=True)


# `counts` are the numbers of passed, failed and skipped tests with CPython 3.11, with 3.13 and with all four.
@pytest.mark.parametrize(
    "first, last, code, counts",
    [
        (PASSED, "14 passed in 8.00s", 0, [(15, 0, 3), (14, 0, 0), (57, 0, 3)]),
        (FAILED, PASSED, 1, [(10, 3, 0), (15, 0, 3), (53, 3, 3)]),
        (PASSED, FAILED, 1, [(15, 0, 3), (10, 3, 0), (53, 3, 3)]),
        (PASSED, "No CPython 3.13 was found", 1, [(15, 0, 3), (0, 0, 0), (43, 0, 3)]),
        (PASSED, "no tests ran in 0.01s", 1, [(15, 0, 3), (0, 0, 0), (43, 0, 3)]),
    ],
    ids=["passed", "failed on the first", "failed on the last", "no such Python", "no tests"],
)
def test_runs_every_python_and_prints_the_totals(clone, first, last, code, counts):
    (clone / "PYTHON=python3.11").write_text(f"{first}\n")
    (clone / "PYTHON=python3.13").write_text(f"{last}\n")
    done = run(clone)
    assert done.returncode == code
    words = (clone / "words").read_text().splitlines()
    assert [line for line in words if "installed-dev" not in line] == [
        "demo VENV=.venv-3.11 PYTHON=python3.11",
        "test-all VENV=.venv-3.11 PYTHON=python3.11",
        "test-long VENV=.venv-3.13 PYTHON=python3.13",
        "test VENV=.venv-3.12 PYTHON=python3.12",
        "test VENV=.venv-3.10 PYTHON=python3.10",
    ]
    assert {line.split("/")[0] for line in words if "installed-dev" in line} == {
        f".venv-{version}" for version in ("3.10", "3.12", "3.13")
    }
    heads = ("CPython 3.11: ", "CPython 3.13: ", "")
    said = done.stdout.splitlines()
    assert [said[-5], said[-2], said[-1]] == [
        f"{head}{passed} passed, {failed} failed, {skipped} skipped"
        for head, (passed, failed, skipped) in zip(heads, counts)
    ]
    none_passed = "CPython 3.13: no test has passed, expected all to\n"
    assert done.stderr == (none_passed if counts[1] == (0, 0, 0) else "")


def test_a_failed_demo_is_a_failure_but_all_tests_run(clone):
    (clone / "no_demo").touch()
    done = run(clone)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "56 passed, 0 failed, 0 skipped"


LONG = "CPython 3.13: without the long tests,"
LATE = [f"CPython {version}: without tests, 75 minutes after the start" for version in ("3.12", "3.10")]


@pytest.mark.parametrize(
    "seconds, said, targets, passed",
    [
        ("3001", [f"{LONG} 50 minutes after the start"], ["demo", "test-all", "test", "test", "test"], 56),
        ("4501", [f"{LONG} 75 minutes after the start", *LATE], ["demo", "test-all", "test"], 28),
    ],
)
def test_late_tests_are_skipped(clone, seconds, said, targets, passed):
    done = run(clone, SECONDS=seconds)
    assert set(said) <= set(done.stdout.splitlines())
    words = (clone / "words").read_text().splitlines()
    assert [line.split()[0] for line in words if "installed-dev" not in line] == targets
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"{passed} passed, 0 failed, 0 skipped"


def test_slow_tests_end_70_minutes_after_the_start(clone):
    start = time.time()
    run(clone, SECONDS="600")
    assert int((clone / "tests_end").read_text()) - start == pytest.approx(60 * 60, abs=20)


@pytest.mark.parametrize("seconds, skipped", [(-1, "1 skipped"), (60, "1 passed")])
def test_a_slow_test_that_would_begin_after_tests_end_is_skipped(seconds, skipped):
    words = ("-q", "-m", "slow", "-k", "test_example_of_a_slow_test", "-p", "no:cacheprovider", __file__)
    environment = {**os.environ, "TESTS_END": str(time.time() + seconds)}
    command = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(command, env=environment, cwd=paths.ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].startswith(skipped), done.stdout


@pytest.mark.slow
def test_example_of_a_slow_test():
    """Does nothing; the test above runs it."""


def test_without_root_the_tests_run_as_the_current_user(clone):
    said = "CPython 3.11: as somebody, without a user of its own (that needs root, "
    assert run(clone).stdout.startswith(said)


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv") or not pathlib.Path("/usr/bin/python3.11").exists(),
    reason="not root, or no setpriv or CPython 3.11 of the system",
)
def test_as_root_a_user_without_privileges_runs_a_copy_of_the_clone(clone):
    """The copy is in a temporary home, and contains no environment or demo that make created in the clone."""
    (clone / "bin/id").unlink()
    user = 'id -un; pwd; echo "$HOME"; ls -A; touch "$HOME/mine" "$TMPDIR/mine" demo'
    scripts.write(clone, {"bin/make": f'[ "$1" = -C ] || exec {clone}/bin/other "$@"\ncd "$2" && {user}'})
    scripts.write(clone, {"bin/other": MAKE})
    for name in (".venv-3.11", "demo"):
        (clone / name).mkdir()
    for path in (clone, *clone.parents):
        reachable = path.stat().st_mode & 0o001
        if not reachable:
            path.chmod(path.stat().st_mode | 0o011)
    said = run(clone).stdout.splitlines()
    assert re.fullmatch(r"CPython 3.11: Python 3\.11\.\d+ of the system, as the user nobody", said[0])
    user, directory, home = said[1:4]
    assert (user, directory) == ("nobody", f"{home}/clone") and not os.path.exists(home)
    listed = said[4 : said.index("nobody", 4)]
    assert "bin" in listed and ".ci" in listed and not {".venv-3.11", "demo"} & set(listed)
