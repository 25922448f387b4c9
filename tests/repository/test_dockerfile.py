"""Tests the Dockerfile: hadolint accepts it, the files that it copies are enough, and its arguments work."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import paths
import pytest
import scripts

ROOT = paths.ROOT
BIN = pathlib.Path(sys.executable).parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def instructions(name):
    """Returns the arguments of every instruction with this name, such as RUN."""
    return re.findall(rf"(?m)^{name} (.*)$", DOCKERFILE.replace("\\\n", " "))


def test_hadolint_finds_no_problem():
    command = [BIN / "hadolint", "--no-color", "--failure-threshold=style", "-"]
    done = subprocess.run(command, input=DOCKERFILE, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_builds_on_a_python_that_the_package_supports_and_runs_as_a_user():
    (default,) = re.findall(r"(?m)^ARG PYTHON=(.*)$", DOCKERFILE)
    assert instructions("FROM") == ["python:${PYTHON}-slim-bookworm"]
    assert f"Programming Language :: Python :: {default}" in (ROOT / "pyproject.toml").read_text()
    assert instructions("USER") == ["1000"] and "useradd --create-home --uid 1000 asr" in instructions("RUN")
    assert instructions("ENTRYPOINT") == ['["python", "-m"]']


@pytest.mark.long
def test_what_it_copies_passes_dockerignore_and_runs_alone(tmp_path):
    copied = [shlex.split(line)[0] for line in instructions("COPY")]
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignore[1] == "*" and {line[1:] for line in ignore if line.startswith("!")} == set(copied)
    for name in copied:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for program in ("tfrecord_builder.build", "estimator_asr.export", "benchmarks.gpu_check"):
        command = [sys.executable, "-m", program, "--help"]
        done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "--" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "device, code, installed, said",
    [
        ("cpu", 0, "", ""),
        ("gpu", 0, r"install --no-cache-dir tensorflow\[and-cuda\]==2\.(15\.1|21\.0)\n", ""),
        ("tpu", 1, "", "DEVICE is tpu, expected cpu or gpu\n"),
    ],
)
def test_device_chooses_the_wheels_of_cuda(device, code, installed, said, tmp_path):
    """Runs the shell code of the second RUN with a fake pip that only logs its arguments."""
    scripts.write(tmp_path, {"pip": 'echo "$@" >> pip.log'})
    (tmp_path / "pip.log").touch()
    environment = {**os.environ, "PATH": f"{tmp_path}:{BIN}:/usr/bin:/bin", "DEVICE": device}
    command = ["/bin/sh", "-c", instructions("RUN")[1]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, said)
    assert re.fullmatch(installed, (tmp_path / "pip.log").read_text())
