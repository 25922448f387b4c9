"""Tests the Makefile: it finds a suitable Python, installs once, and says in one sentence what is missing."""

import os
import re
import shutil
import subprocess
import sys

import paths
import pytest
import scripts

BROKEN = "echo 'pyenv: python3.11: command not found' >&2; exit 127"
NAMES = [f"python3.{minor}" for minor in range(10, 14)] + ["python3", "python"]
UV = '[ "$1 $2 $3" = "venv --seed --python" ] && mkdir "$5" "$5/bin" && cp "of uv/$4" "$5/bin/python"'
INTEL_MAC = {"bin/uname": "echo Darwin x86_64"}
FROM_TO = "CPython from 3.10 to 3.13"
INSTALL = "install one with its venv module (or install uv), then call make again."
UNFIT = f"expected a {FROM_TO} that runs and has its venv module"


def suitable(version):
    """Returns a fake Python of this version; in environments that it creates, pip only logs its arguments."""
    return f"""case "$1 $2" in
  "-c import pip") ;;
  "-c "*) echo "{version} $0" ;;
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip") echo "$@" >> pip.log ;;
esac"""


PYTHON_3_11 = {"bin/python3.11": suitable("3.11")}
IN_PATH = {f"bin/python{name}": suitable(name) for name in ("3.10", "3.11", "3.12")}
IN_PYENV = {f"a home/.pyenv/versions/{name}/bin/python": suitable(name[:4]) for name in ("3.10.13", "3.12.1")}


@pytest.fixture
def house(tmp_path):
    """Copies the files that make reads; its PATH contains only the tools that its recipes call."""
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(paths.ROOT / name, tmp_path)
    scripts.write(tmp_path, {"bin/uname": "echo Linux x86_64", **{f"bin/{name}": BROKEN for name in NAMES}})
    scripts.write(tmp_path, {f"of uv/{name}": suitable(name) for name in ("3.12", "3.13")})
    for tool in ("make", "touch", "mkdir", "cp", "rm"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return tmp_path


def make(house, *words, target=".venv/installed"):
    environment = {"PATH": str(house / "bin"), "HOME": str(house / "a home")}
    command = ["make", target, *words]
    return subprocess.run(command, cwd=house, env=environment, capture_output=True, text=True)


def said(completed):
    return [line for line in completed.stderr.splitlines() if not line.startswith("make: ***")]


@pytest.mark.parametrize(
    "programs, words, sentence",
    [
        ({}, [], f"No {FROM_TO} was found: {INSTALL}"),
        (INTEL_MAC, [], f"No CPython from 3.10 to 3.11 was found: {INSTALL}"),
        (PYTHON_3_11, ["PYTHON=python3.12"], f"No CPython 3.12 was found: {INSTALL}"),
        ({}, ["PYTHON=python3.9"], f"PYTHON is python3.9, {UNFIT}"),
        ({}, ["PYTHON=python3.14"], f"PYTHON is python3.14, {UNFIT}"),
        ({}, ["PYTHON=python"], f"PYTHON is python, {UNFIT}"),
        ({}, ["PYTHON=/nowhere/python"], f"PYTHON is /nowhere/python, {UNFIT}"),
        ({}, ["VENV=my dir"], 'VENV is "my dir", expected a path without spaces'),
    ],
)
def test_says_in_one_sentence_what_is_missing(house, programs, words, sentence):
    scripts.write(house, programs)
    completed = make(house, *words)
    (line,) = said(completed)
    assert completed.returncode != 0 and sentence in line
    assert not (house / ".venv").exists()


@pytest.mark.parametrize(
    "programs, words, chosen",
    [
        ({"bin/python3.10": suitable("3.10")}, [], "3.10"),  # all other Pythons are broken
        ({**IN_PATH, "bin/python3": suitable("3.10")}, [], "3.12"),  # the newest
        ({"bin/python": suitable("3.10")}, [], "3.10"),
        ({**IN_PATH, **INTEL_MAC}, [], "3.11"),  # the newest with a TensorFlow for Intel Macs
        (IN_PYENV, [], "3.12"),  # found without a shim, in a HOME with a space
        ({**PYTHON_3_11, **IN_PYENV}, [], "3.12"),
        ({**IN_PATH, **IN_PYENV}, ["PYTHON=python3.11"], "3.11"),
        ({**IN_PATH, **IN_PYENV}, ["PYTHON=python3.10"], "3.10"),
        ({**IN_PATH, **IN_PYENV}, ["PYTHON=3.10"], "3.10"),
        ({**IN_PATH, **IN_PYENV}, ["PYTHON=bin/python3.10"], "3.10"),
        ({"bin/uv": UV}, [], "3.13"),
        ({"bin/uv": UV}, ["PYTHON=python3.12"], "3.12"),
    ],
)
def test_chooses_a_python_for_the_environment(house, programs, words, chosen):
    scripts.write(house, programs)
    assert make(house, "VENV=.venv-x", *words, target=".venv-x/installed").returncode == 0
    assert [path.name for path in house.glob(".venv*")] == [".venv-x"]
    assert subprocess.check_output([house / ".venv-x/bin/python", "-c", ""], text=True).split()[0] == chosen
    assert (house / "pip.log").read_text().splitlines()[-1].endswith("-r requirements.txt")


HAS_NONE = f".venv has no Python that fits, expected a {FROM_TO} that runs and has pip; "
HAS_ANOTHER = ".venv has CPython 3.11, expected a CPython 3.12 that runs and has pip; "
REPLACED = "it is replaced."
REFUSED = "make did not make it: delete it, or name another directory with VENV=."


@pytest.mark.parametrize(
    "version, marker, others, words, sentence",
    [
        ("", "made-by-make", {"bin/uv": UV}, [], HAS_NONE + REPLACED),
        ("", "installed", {"bin/uv": UV}, [], HAS_NONE + REPLACED),
        ("", "installed-dev", {"bin/python3.10": suitable("3.10")}, [], HAS_NONE + REPLACED),
        ("3.11", "made-by-make", {"bin/uv": UV}, ["PYTHON=python3.12"], HAS_ANOTHER + REPLACED),
        ("", "mine", {"bin/uv": UV}, [], HAS_NONE + REFUSED),
        ("3.11", "mine", {"bin/uv": UV}, ["PYTHON=python3.12"], HAS_ANOTHER + REFUSED),
        ("", "installed", {}, [], f"No {FROM_TO} was found: {INSTALL}"),
        ("3.10", "mine", {}, [], ""),
    ],
)
def test_replaces_only_environments_that_make_created(house, version, marker, others, words, sentence):
    """If `version` is empty, the environment's Python is broken. Recent uv refuses an existing directory."""
    scripts.write(house, {".venv/bin/python": suitable(version) if version else BROKEN, **others})
    (house / ".venv" / marker).touch()
    (house / ".venv" / "old").touch()
    completed = make(house, *words)
    lines = [*said(completed), *completed.stdout.splitlines()]
    assert "".join(line for line in lines if re.match(r"No |\.venv has", line)) == sentence
    is_replaced = sentence.endswith(REPLACED)
    assert (completed.returncode == 0) == (is_replaced or not sentence)
    assert (house / ".venv" / "old").exists() != is_replaced


@pytest.mark.parametrize("words", [[], ["PYTHON=python3.10"]])
def test_a_second_call_installs_nothing_until_the_requirements_change(house, words):
    scripts.write(house, {"bin/python3.10": suitable("3.10")})

    def install():
        assert make(house, *words, target=".venv/installed-dev").returncode == 0
        return (house / "pip.log").read_text()

    calls = install()
    assert "-r requirements.txt" in calls and "-r requirements-dev.txt" in calls
    assert install() == calls
    future = os.stat(house / ".venv" / "installed-dev").st_mtime + 5
    os.utime(house / "requirements.txt", (future, future))
    assert install() != calls


def test_an_installation_that_failed_is_tried_again_in_the_same_environment(house):
    scripts.write(house, {"bin/python3.10": suitable("3.10").replace("pip.log ;;", "pip.log; false ;;")})
    assert make(house).returncode != 0
    assert {path.name for path in (house / ".venv").iterdir()} == {"bin", "made-by-make"}
    scripts.write(house, {".venv/bin/python": suitable("3.10"), "bin/python3.10": BROKEN})
    assert make(house).returncode == 0
    assert (house / ".venv" / "installed").exists()
    assert len((house / "pip.log").read_text().splitlines()) == 2


def test_the_makefile_accepts_this_python_and_the_versions_that_it_names():
    """Runs the code that the Makefile uses to check a Python."""
    makefile = (paths.ROOT / "Makefile").read_text(encoding="utf-8")
    (probe,) = re.findall(r"(?ms)^PROBE = -c '(.*?)'$", makefile)
    probe = probe.replace("\\\n", "").replace("$(VERSIONS)", "3.13 3.12 3.11 3.10")
    name, executable = subprocess.check_output([sys.executable, "-c", probe], text=True).strip().split(" ", 1)
    assert name == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert executable.startswith(sys.base_prefix + os.sep) and os.access(executable, os.X_OK)
    for minor in range(7, 16):
        pretend = f"import sys; sys.version_info = (3, {minor}, 0); "
        code = subprocess.run([sys.executable, "-c", pretend + probe]).returncode
        assert (minor, code) == (minor, 0 if 10 <= minor <= 13 else 1)
