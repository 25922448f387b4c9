"""The Dockerfile: linted by hadolint, what it copies is enough to run, and the docs' commands fit it."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import textwrap

import paths
import pytest

ROOT = paths.ROOT
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")])
HADOLINT = pathlib.Path(sys.executable).with_name("hadolint")


def lint(text):
    """What hadolint has against a Dockerfile, style included."""
    command = [HADOLINT, "--no-color", "--failure-threshold=style", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True).stdout


def instructions(name):
    """The arguments of each instruction of a name."""
    return re.findall(rf"(?m)^{name} (.*)$", DOCKERFILE.replace("\\\n", " "))


def blocks(language):
    """The code blocks of a language in the docs."""
    pattern = re.compile(rf"^ *```{language}\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
    found = [block for page in PAGES for block in pattern.findall(page.read_text(encoding="utf-8"))]
    return [textwrap.dedent(block) for block in found]


def commands(program):
    """The words of each command in the docs that starts with a program."""
    lines = "".join(blocks("")).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith(f"{program} ")]


def test_hadolint_finds_nothing():
    assert lint(DOCKERFILE) == ""


def test_hadolint_finds_something():
    said = lint("FROM python\nRUN pip install tensorflow\nUSER root\n")
    assert [rule for rule in ("DL3006", "DL3013", "DL3042", "DL3002") if rule in said] == [
        "DL3006",
        "DL3013",
        "DL3042",
        "DL3002",
    ]


def test_it_builds_on_a_python_that_the_package_supports_and_runs_as_a_user():
    (default,) = re.findall(r"^ARG PYTHON=(.*)$", DOCKERFILE, re.MULTILINE)
    assert instructions("FROM") == ["python:${PYTHON}-slim-bookworm"]
    assert f"Programming Language :: Python :: {default}" in (ROOT / "pyproject.toml").read_text()
    assert instructions("USER") == ["1000"] and "useradd --create-home --uid 1000 asr" in instructions("RUN")
    assert instructions("ENTRYPOINT") == ['["python", "-m"]']


def test_all_that_is_copied_is_let_through_by_dockerignore():
    copied = [line.split()[0] for line in instructions("COPY")]
    assert len(copied) == 5 and all((ROOT / name).exists() for name in copied)
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignore[1] == "*" and sorted(line[1:] for line in ignore if line.startswith("!")) == sorted(copied)


def test_what_is_copied_runs_alone(tmp_path):
    for name in (line.split()[0] for line in instructions("COPY")):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    for program in ("tfrecord_builder.build", "benchmarks.gpu_check"):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", program, "--help"]
        done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "--" in done.stdout, done.stderr


@pytest.mark.parametrize("device, code", [("cpu", 0), ("gpu", 0), ("tpu", 1)])
def test_device_chooses_the_wheels_of_cuda(device, code, tmp_path):
    """Runs the shell of the second RUN with a pip that only notes what it is asked to install."""
    (tmp_path / "pip").write_text('#!/bin/sh\necho "$@" > pip.log\n')
    (tmp_path / "pip").chmod(0o755)
    search = f"{tmp_path}:{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {**os.environ, "PATH": search, "DEVICE": device}
    command = ["/bin/sh", "-c", instructions("RUN")[1]]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "DEVICE is tpu, expected cpu or gpu\n" if code else "")
    wanted = r"install --no-cache-dir tensorflow\[and-cuda\]==2\.(15\.1|21\.0)\n"
    asked = (tmp_path / "pip.log").read_text() if device == "gpu" else ""
    assert bool(re.fullmatch(wanted, asked)) == (device == "gpu")


def test_docs_build_it_with_arguments_that_it_has():
    known = set(re.findall(r"(?m)^ARG (\w+)", DOCKERFILE))
    builds = [words for words in commands("docker") if words[1] == "build" and "--file" not in str(words)]
    given = [word.split("=")[1] for words in builds for word in words if word.startswith("--build-arg=")]
    assert len(builds) >= 3 and {"DEVICE", "PYTHON"} == set(given) <= known
    assert all(words[-1] == "." for words in builds)


def test_docs_run_programs_and_flags_that_exist(program_answers):
    runs = [words for words in commands("docker") if words[1] == "run"]
    assert len(runs) >= 3
    for words in runs:
        image = next(i for i, word in enumerate(words) if re.fullmatch("estimator-asr(:gpu)?", word))
        module, *arguments = words[image + 1 :] or ["estimator_asr.doctor"]
        assert ("--gpus=all" in words) == words[image].endswith(":gpu")
        if module == "benchmarks.gpu_check":
            continue
        names = {argument[2:].split("=")[0] for argument in arguments}
        assert names <= set(program_answers[module]["flags"]), words


def test_the_beam_worker_of_the_docs_has_the_pinned_beam():
    (snippet,) = blocks("dockerfile")
    assert lint(snippet) == ""
    pins = re.findall(
        r"apache-beam==([\d.]+); python_version >=", (ROOT / "requirements-dev.txt").read_text()
    )
    assert re.findall(r"beam_python3\.12_sdk:([\d.]+)", snippet) == pins
    assert re.findall(r"apache-beam\[gcp\]==([\d.]+)", snippet) == pins
