"""Tests the documentation: commands use programs, flags and files that exist, and links have a target."""

import functools
import re
import shlex
import subprocess
import sys

import paths
import pytest

ROOT = paths.ROOT
PAGES = paths.find_files("*.md", "docs/**/*.md", "examples/*/*.md", "runtime/*.md")


_BLOCK = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_IS_COMMAND = re.compile(r"\bpython[0-9.]* -m |^\s*make\b|^\s*docker (run|build)\b").search
_IS_IMAGE = re.compile("estimator-asr(:gpu)?").fullmatch


def list_commands(page: str) -> list[list[str]]:
    """Returns the words of each command in a page's code blocks, split at pipes and &&, without comments."""
    lines = "".join(_BLOCK.findall(page)).replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.split(r"&&|\|\||[|;]", re.sub(r"^\s*\$ ", "", line))]
    split = [shlex.split(re.sub(r"[\[\]]", " ", part), comments=True) for part in parts if _IS_COMMAND(part)]
    return [words for words in split if words]


def find_faults(page: str, programs: dict[str, dict]) -> list[str]:
    """Returns the faults in a page's commands; `programs` is the result of program_flags.ask_all."""
    return [fault for words in list_commands(page) for fault in _faults(words, programs)]


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
    """Returns the flags of estimator_asr_runtime, which does not use absl; every flag needs a value."""
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_are_real_and_links_lead_to_files_and_headings(page, program_answers):
    text = page.read_text(encoding="utf-8")
    assert find_faults(text, program_answers) == []
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading:
            titles = re.findall(r"(?m)^#+ (.*)$", linked.read_text(encoding="utf-8"))
            assert heading in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in titles}


@pytest.mark.parametrize("page", ["README.md", "BUILD.md", "docs/pretrained.md"])
def test_the_export_is_evaluated_and_its_report_has_a_character_error_rate(page):
    """An acoustic model alone outputs syllables, so its report contains no character error rate."""
    commands = list_commands((ROOT / page).read_text(encoding="utf-8"))
    commands = [words for words in commands if words[0] == "python"]
    programs = [words[2] for words in commands]
    export = programs.index("estimator_asr.export")
    flags = dict(word.split("=", 1) for word in commands[export + 1][3:])
    assert programs[export + 1 : export + 3] == ["estimator_asr.evaluate", "estimator_asr.transcribe"]
    assert flags["--saved_model"] == "EXPORT" and "--language_model_dir=LM" in commands[export]
    assert f"--data_dir={flags['--data_dir']}" in commands[export]
    assert "estimator_asr.evaluate" not in programs[:export]


PAGE = """
Not here: `python -m estimator_asr.nowhere`.
```bash
make demo       # all of it
$ .venv/bin/python -m estimator_asr.train --model=acoustic \\
    --noxla --data_dir=DATA && tensorboard --logdir=AM
python -m estimator_asr.train [--xla] --epochs 3
make tea
python -m estimator_asr.train --nomodel --model | less
python -m estimator_asr.train --flagfile=flags/x.flags && python -m estimator_asr.nowhere
python -m venv .venv
python -m estimator_asr_runtime --model=DIR --format json --beam=3 speech.wav
docker build --build-arg=COLOUR=red --build-arg=DEVICE=gpu
docker run --rm --gpus=all estimator-asr estimator_asr.train --data_dir=D --colour=red
docker run --rm --gpus=all estimator-asr:gpu benchmarks.gpu_check
```
"""


def test_checker_finds_the_faults_of_a_page(program_answers):
    assert find_faults(PAGE, program_answers) == [
        "estimator_asr.train: no flag --epochs",
        "make: no target tea",
        "estimator_asr.train: no flag --nomodel",
        "estimator_asr.train: --model needs =VALUE",
        "estimator_asr.train: flags/x.flags does not exist",
        "estimator_asr.nowhere: no such program",
        "estimator_asr_runtime: --format needs =VALUE",
        "estimator_asr_runtime: no flag --beam",
        "docker build: no ARG COLOUR",
        "docker build: no context",
        "docker run: estimator-asr and --gpus=all do not fit",
        "estimator_asr.train: no flag --colour",
    ]
