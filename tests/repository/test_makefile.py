"""The Makefile finds a Python that runs, installs once, and says in one sentence what is missing."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import paths
import pytest

ROOT = paths.ROOT
BROKEN = "#!/bin/sh\necho 'pyenv: python3.11: command not found' >&2\nexit 127\n"
# A Python that is suitable, and makes an environment whose pip only notes what it is asked to install.
SUITABLE = """#!/bin/sh
case "$1 $2" in
  "-m venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  "-m pip") echo "$@" >> pip.log ;;
esac
"""
UV = """#!/bin/sh
echo "$@" > uv.log
mkdir .venv .venv/bin && cp bin/suitable .venv/bin/python
"""


@pytest.fixture
def house(tmp_path):
    """A copy of what make reads, and a PATH with nothing but the tools that its recipes call."""
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in ("make", "touch", "mkdir", "cp", "rm"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    for name in ("python3.11", "python3.10", "python3.9", "python3", "python"):
        install(tmp_path, name, BROKEN)
    install(tmp_path, "suitable", SUITABLE)
    return tmp_path


def install(house, name, script):
    path = house / "bin" / name
    path.write_text(script)
    path.chmod(0o755)


def make(house, *words):
    environment = {"PATH": str(house / "bin"), "HOME": str(house)}
    return subprocess.run(["make", *words], cwd=house, env=environment, capture_output=True, text=True)


def test_says_in_one_sentence_that_no_python_fits(house):
    completed = make(house, ".venv/installed")
    assert completed.returncode != 0
    said = [line for line in completed.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(said) == 1
    assert said[0].startswith("No CPython 3.9, 3.10 or 3.11 was found: install one")
    assert not (house / ".venv").exists()


def test_skips_names_that_do_not_run(house):
    install(house, "python3.9", SUITABLE)
    assert make(house, ".venv/installed").returncode == 0
    assert (house / "pip.log").read_text().splitlines()[-1].endswith("-r requirements.txt")


def test_takes_a_python_of_pyenv_that_no_shim_reaches(house):
    folder = house / ".pyenv" / "versions" / "3.10.13" / "bin"
    folder.mkdir(parents=True)
    shutil.copy(house / "bin" / "suitable", folder / "python")
    assert make(house, ".venv/installed").returncode == 0


def test_asks_uv_when_no_python_fits(house):
    install(house, "uv", UV)
    assert make(house, ".venv/installed").returncode == 0
    assert (house / "uv.log").read_text().split() == ["venv", "--seed", "--python", "3.11", ".venv"]


REPLACED = ".venv is replaced: the one that is here has no CPython 3.9, 3.10 or 3.11 that runs and has pip."


@pytest.mark.parametrize("name, script", [("uv", UV), ("python3.9", SUITABLE)])
def test_says_that_it_replaces_an_environment_that_does_not_run(house, name, script):
    """A recent uv refuses a directory that is there, and an old one does not know --clear."""
    (house / ".venv" / "bin").mkdir(parents=True)
    (house / ".venv" / "bin" / "python").write_text(BROKEN)
    (house / ".venv" / "bin" / "python").chmod(0o755)
    install(house, name, script)
    completed = make(house, ".venv/installed")
    assert completed.returncode == 0, completed.stderr
    assert REPLACED in completed.stdout.splitlines()
    assert (house / ".venv" / "bin" / "python").read_text() == SUITABLE


def test_leaves_an_environment_alone_that_runs(house):
    (house / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(house / "bin" / "suitable", house / ".venv" / "bin" / "python")
    (house / ".venv" / "mine").touch()
    completed = make(house, ".venv/installed")
    assert completed.returncode == 0 and REPLACED not in completed.stdout
    assert (house / ".venv" / "mine").exists()


def test_replaces_nothing_when_no_python_fits(house):
    (house / ".venv").mkdir()
    (house / ".venv" / "mine").touch()
    completed = make(house, ".venv/installed")
    assert completed.returncode != 0 and REPLACED not in completed.stdout
    assert (house / ".venv" / "mine").exists()


def test_a_second_call_installs_nothing_until_the_requirements_change(house):
    install(house, "python3.9", SUITABLE)
    assert make(house, ".venv/installed-dev").returncode == 0
    calls = (house / "pip.log").read_text()
    assert "-r requirements.txt" in calls and "-r requirements-dev.txt" in calls
    assert make(house, ".venv/installed-dev").returncode == 0
    assert (house / "pip.log").read_text() == calls
    future = os.stat(house / ".venv" / "installed-dev").st_mtime + 5
    os.utime(house / "requirements.txt", (future, future))
    assert make(house, ".venv/installed-dev").returncode == 0
    assert (house / "pip.log").read_text() != calls


def test_an_installation_that_failed_is_tried_again(house):
    """In the same environment."""
    install(house, "python3.9", SUITABLE.replace("pip.log ;;", 'pip.log; test "$3" = --version ;;'))
    assert make(house, ".venv/installed").returncode != 0
    assert not (house / ".venv" / "installed").exists()
    shutil.copy(house / "bin" / "suitable", house / ".venv" / "bin" / "python")
    (house / "bin" / "python3.9").unlink()
    assert make(house, ".venv/installed").returncode == 0
    assert (house / ".venv" / "installed").exists()
    installations = [line for line in (house / "pip.log").read_text().splitlines() if " install " in line]
    assert len(installations) == 2


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_pinned_and_name_no_host(name):
    text = (ROOT / name).read_text()
    lines = [line.split("#")[0].split(";")[0].strip() for line in text.splitlines()]
    pins = [line for line in lines if line and line != "-r requirements.txt"]
    assert pins and all("==" in pin for pin in pins)
    assert "://" not in text and "--index" not in text and "--find-links" not in text


def test_every_dependency_of_the_package_is_pinned():
    listed = re.findall(r'^  "([a-z-]+)[>=<]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    pinned = re.findall(r"^([a-z-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert len(listed) > 10 and set(listed) <= set(pinned)


def suitable_words():
    """What the Makefile has a Python run to see whether it is suitable."""
    (line,) = re.findall(r"^SUITABLE = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return shlex.split(line)


def test_this_python_is_one_that_the_makefile_takes():
    assert subprocess.run([sys.executable, *suitable_words()]).returncode == 0


@pytest.mark.parametrize("version, exit_code", [("3.8", 1), ("3.9", 0), ("3.11", 0), ("3.12", 1)])
def test_the_makefile_takes_the_versions_that_it_names(version, exit_code):
    option, code = suitable_words()
    pretend = f"import sys; sys.version_info = ({version.replace('.', ', ')}, 0); "
    assert subprocess.run([sys.executable, option, pretend + code]).returncode == exit_code
