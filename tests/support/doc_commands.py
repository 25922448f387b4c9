"""Commands in a page of the documentation, and what is wrong with them."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys

import paths

_BLOCK = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_IS_COMMAND = re.compile(r"\bpython[0-9.]* -m |^\s*make\b|^\s*docker (run|build)\b").search
_IS_IMAGE = re.compile("estimator-asr(:gpu)?").fullmatch


def commands(page: str) -> list[list[str]]:
    """The words of each command in the code blocks of a page, without comments, parted at pipes and &&."""
    lines = "".join(_BLOCK.findall(page)).replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.split(r"&&|\|\||[|;]", re.sub(r"^\s*\$ ", "", line))]
    split = [shlex.split(re.sub(r"[\[\]]", " ", part), comments=True) for part in parts if _IS_COMMAND(part)]
    return [words for words in split if words]


def find_faults(page: str, programs: dict[str, dict]) -> list[str]:
    """What is wrong with the commands of a page; programs are the answers of program_flags.ask_all."""
    return [fault for words in commands(page) for fault in _faults(words, programs)]


def _faults(words, programs):
    if words[0] == "make":
        names = {word for word in words[1:] if "=" not in word and not word.startswith("-")}
        yield from (f"make: no target {name}" for name in names - _names(r"([a-z-]+):", "Makefile"))
    elif words[:2] == ["docker", "build"]:
        names = {word.split("=")[1] for word in words if word.startswith("--build-arg=")}
        yield from (f"docker build: no ARG {name}" for name in names - _names(r"ARG (\w+)", "Dockerfile"))
        if words[-1] != ".":
            yield "docker build: no context"
    elif "-m" in words:
        yield from _program_faults(programs, *words[words.index("-m") + 1 :])
    elif image := next(filter(_IS_IMAGE, words), None):
        if image.endswith(":gpu") != ("--gpus=all" in words):
            yield f"docker run: {image} and --gpus=all do not fit"
        yield from _program_faults(programs, *(words[words.index(image) + 1 :] or ["estimator_asr.doctor"]))


def _names(pattern, file):
    return set(re.findall(f"(?m)^{pattern}", (paths.ROOT / file).read_text(encoding="utf-8")))


@functools.lru_cache
def _ask_runtime() -> dict[str, dict]:
    """Returns the flags of the program that has no absl; all take values."""
    module = "estimator_asr_runtime"
    command = [sys.executable, "-m", module, "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, cwd=paths.ROOT, check=True).stdout
    return {module: {"flags": dict.fromkeys(re.findall(r"(?m)^  --(\w+)", shown), False)}}


def _program_faults(programs, module, *words):
    if module == "estimator_asr_runtime":
        programs = _ask_runtime()
    elif module.split(".")[0] not in ("tfrecord_builder", "estimator_asr"):
        return
    if module not in programs:
        yield f"{module}: no such program"
        return
    is_switch = programs[module]["flags"]
    for flag in (word for word in words if word.startswith("--")):
        name, equals, value = flag[2:].partition("=")
        is_negated = not equals and name.startswith("no") and is_switch.get(name[2:], False)
        if name not in is_switch and not is_negated:
            yield f"{module}: no flag --{name}"
        elif not equals and not is_negated and not is_switch[name]:
            yield f"{module}: --{name} needs =VALUE"
        elif name == "flagfile" and not (paths.ROOT / value).is_file():
            yield f"{module}: {value} does not exist"
