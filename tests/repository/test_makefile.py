"""The Makefile finds a Python that runs, installs once, and says in one sentence what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import paths
import pytest

ROOT = paths.ROOT
BROKEN = "#!/bin/sh\necho 'pyenv: python3.11: command not found' >&2\nexit 127\n"
NAMES = [f"python3.{minor}" for minor in range(9, 14)] + ["python3", "python"]


def suitable(version):
    """A Python that fits, and makes an environment whose pip only notes what it is asked to install."""
    return f"""#!/bin/sh
case "$1 $2" in
  "-c import pip") ;;
  "-c "*) echo "{version} $0" ;;
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
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
    for tool in ("make", "touch", "mkdir", "cp", "rm", "uname"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    for name in NAMES:
        install(tmp_path / "bin" / name, BROKEN)
    install(tmp_path / "bin" / "suitable", suitable("3.13"))
    return tmp_path


def install(path, script):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)


def make(house, *words):
    environment = {"PATH": str(house / "bin"), "HOME": str(house / "a home")}
    return subprocess.run(["make", *words], cwd=house, env=environment, capture_output=True, text=True)


def make_environment(house, script, *markers):
    install(house / ".venv" / "bin" / "python", script)
    for marker in ("mine", *markers):
        (house / ".venv" / marker).touch()


def version(house):
    """The version of the environment that make made."""
    return subprocess.run(
        [house / ".venv/bin/python", "-c", ""], capture_output=True, text=True
    ).stdout.split()[0]


def said(completed):
    return [line for line in completed.stderr.splitlines() if not line.startswith("make: ***")]


def test_says_in_one_sentence_that_no_python_fits(house):
    completed = make(house, ".venv/installed")
    assert completed.returncode != 0
    assert said(completed) == [
        "No CPython from 3.9 to 3.13 was found: install one with its venv module (or install uv), "
        "then call make again."
    ]
    assert not (house / ".venv").exists()


IN_PATH = {f"bin/python{name}": name for name in ("3.9", "3.11", "3.12")}
IN_PYENV = {f"a home/.pyenv/versions/{name}/bin/python": name[:4] for name in ("3.10.13", "3.12.1")}


@pytest.mark.parametrize(
    "pythons, words, chosen",
    [
        ({"bin/python3.9": "3.9"}, [], "3.9"),  # the other names do not run
        ({**IN_PATH, "bin/python3": "3.10"}, [], "3.12"),  # the newest
        (IN_PYENV, [], "3.12"),  # that no shim reaches, in a HOME with a space
        ({"bin/python3.11": "3.11", **IN_PYENV}, [], "3.12"),
        ({**IN_PATH, **IN_PYENV}, ["PYTHON=python3.11"], "3.11"),
        ({**IN_PATH, **IN_PYENV}, ["PYTHON=python3.10"], "3.10"),
        ({**IN_PATH, **IN_PYENV}, ["PYTHON=3.10"], "3.10"),
        ({**IN_PATH, **IN_PYENV}, ["PYTHON=bin/python3.9"], "3.9"),
    ],
)
def test_chooses_a_python(house, pythons, words, chosen):
    for path, name in pythons.items():
        install(house / path, suitable(name))
    assert make(house, ".venv/installed", *words).returncode == 0
    assert version(house) == chosen
    assert (house / "pip.log").read_text().splitlines()[-1].endswith("-r requirements.txt")


def test_an_intel_mac_takes_a_python_that_has_a_tensorflow(house):
    (house / "bin" / "uname").unlink()
    install(house / "bin" / "uname", "#!/bin/sh\necho Darwin x86_64\n")
    install(house / "bin" / "python3.12", suitable("3.12"))
    completed = make(house, ".venv/installed")
    assert said(completed)[0].startswith("No CPython from 3.9 to 3.11 was found: install one")
    install(house / "bin" / "python3.10", suitable("3.10"))
    assert make(house, ".venv/installed").returncode == 0
    assert version(house) == "3.10"


@pytest.mark.parametrize("python", ["python3.8", "python3.14", "python", "/nowhere/python"])
def test_refuses_a_python_that_does_not_fit(house, python):
    completed = make(house, ".venv/installed", f"PYTHON={python}")
    assert completed.returncode != 0 and len(said(completed)) == 1
    expected = f"PYTHON is {python}, expected a CPython from 3.9 to 3.13 that runs and has its venv module"
    assert expected in said(completed)[0]


def test_says_that_the_python_asked_for_is_missing(house):
    install(house / "bin" / "python3.11", suitable("3.11"))
    completed = make(house, ".venv/installed", "PYTHON=python3.12")
    assert completed.returncode != 0
    assert said(completed)[0].startswith("No CPython 3.12 was found: install one with its venv module")


def test_environments_lie_beside_each_other(house):
    for name in ("3.11", "3.12"):
        install(house / "bin" / f"python{name}", suitable(name))
        assert (
            make(
                house, f".venv-{name}/installed-dev", f"VENV=.venv-{name}", f"PYTHON=python{name}"
            ).returncode
            == 0
        )
    assert {path.name for path in house.glob(".venv*")} == {".venv-3.11", ".venv-3.12"}


@pytest.mark.parametrize("words, asked", [([], "3.13"), (["PYTHON=python3.12"], "3.12")])
def test_asks_uv_when_no_python_fits(house, words, asked):
    install(house / "bin" / "uv", UV)
    assert make(house, ".venv/installed", *words).returncode == 0
    assert (house / "uv.log").read_text().split() == ["venv", "--seed", "--python", asked, ".venv"]


HAS_NONE = ".venv has no Python that fits, expected a CPython from 3.9 to 3.13 that runs and has pip; "


@pytest.mark.parametrize(
    "name, script, marker",
    [("uv", UV, "made-by-make"), ("uv", UV, "installed"), ("python3.9", suitable("3.9"), "installed-dev")],
)
def test_says_that_it_replaces_an_environment_that_does_not_run(house, name, script, marker):
    """A recent uv refuses a directory that is there, and an old one does not know --clear."""
    make_environment(house, BROKEN, marker)
    install(house / "bin" / name, script)
    completed = make(house, ".venv/installed")
    assert completed.returncode == 0, completed.stderr
    assert HAS_NONE + "it is replaced." in completed.stdout.splitlines()
    assert not (house / ".venv" / "mine").exists()


def test_an_environment_that_make_made_is_replaced_by_the_python_asked_for(house):
    for name in ("3.11", "3.12"):
        install(house / "bin" / f"python{name}", suitable(name))
    assert make(house, ".venv/installed-dev", "PYTHON=python3.11").returncode == 0
    completed = make(house, ".venv/installed-dev", "PYTHON=python3.12")
    assert completed.returncode == 0 and version(house) == "3.12"
    replaced = ".venv has CPython 3.11, expected a CPython 3.12 that runs and has pip; it is replaced."
    assert replaced in completed.stdout.splitlines()


@pytest.mark.parametrize(
    "script, words, has",
    [
        (BROKEN, [], "no Python that fits, expected a CPython from 3.9 to 3.13"),
        (suitable("3.11"), ["PYTHON=python3.12"], "CPython 3.11, expected a CPython 3.12"),
    ],
)
def test_never_deletes_an_environment_of_somebody_else(house, script, words, has):
    make_environment(house, script)
    install(house / "bin" / "python3.12", suitable("3.12"))
    completed = make(house, ".venv/installed", *words)
    assert completed.returncode != 0 and (house / ".venv" / "mine").exists()
    assert said(completed) == [
        f".venv has {has} that runs and has pip; make did not make it: "
        "delete it, or name another directory with VENV=."
    ]


@pytest.mark.parametrize("script, markers, code", [(suitable("3.10"), [], 0), (BROKEN, ["installed"], 2)])
def test_leaves_an_environment_alone_that_runs_or_cannot_be_replaced(house, script, markers, code):
    make_environment(house, script, *markers)
    completed = make(house, ".venv/installed")
    assert completed.returncode == code and "replaced" not in completed.stdout
    assert (house / ".venv" / "mine").exists()


@pytest.mark.parametrize("words", [[], ["PYTHON=python3.9"]])
def test_a_second_call_installs_nothing_until_the_requirements_change(house, words):
    install(house / "bin" / "python3.9", suitable("3.9"))
    assert make(house, ".venv/installed-dev", *words).returncode == 0
    calls = (house / "pip.log").read_text()
    assert "-r requirements.txt" in calls and "-r requirements-dev.txt" in calls
    assert make(house, ".venv/installed-dev", *words).returncode == 0
    assert (house / "pip.log").read_text() == calls
    future = os.stat(house / ".venv" / "installed-dev").st_mtime + 5
    os.utime(house / "requirements.txt", (future, future))
    assert make(house, ".venv/installed-dev", *words).returncode == 0
    assert (house / "pip.log").read_text() != calls


def test_an_installation_that_failed_is_tried_again(house):
    """In the same environment."""
    install(house / "bin" / "python3.9", suitable("3.9").replace("pip.log ;;", "pip.log; false ;;"))
    assert make(house, ".venv/installed").returncode != 0
    assert not (house / ".venv" / "installed").exists()
    install(house / ".venv" / "bin" / "python", suitable("3.9"))
    (house / "bin" / "python3.9").unlink()
    assert make(house, ".venv/installed").returncode == 0
    assert (house / ".venv" / "installed").exists()
    assert len((house / "pip.log").read_text().splitlines()) == 2


def probe():
    """What the Makefile has a Python run to see whether it is suitable."""
    (code,) = re.findall(r"^PROBE = -c '(.*?)'$", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    return code.replace("\\\n", "").replace("$(VERSIONS)", "3.13 3.12 3.11 3.10 3.9")


def test_this_python_is_one_that_the_makefile_takes():
    completed = subprocess.run([sys.executable, "-c", probe()], capture_output=True, text=True, check=True)
    found, executable = completed.stdout.strip().split(" ", 1)
    assert found == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert executable.startswith(sys.base_prefix + os.sep) and os.access(executable, os.X_OK)


@pytest.mark.parametrize(
    "version, exit_code", [("3.8", 1), ("3.9", 0), ("3.11", 0), ("3.13", 0), ("3.14", 1)]
)
def test_the_makefile_takes_the_versions_that_it_names(version, exit_code):
    pretend = f"import sys; sys.version_info = ({version.replace('.', ', ')}, 0); "
    assert subprocess.run([sys.executable, "-c", pretend + probe()]).returncode == exit_code


def test_an_environment_in_a_path_with_a_space_is_refused(house):
    (refused,) = said(make(house, "lint", "VENV=my dir"))
    assert 'VENV is "my dir", expected a path without spaces' in refused
