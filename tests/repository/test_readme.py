"""Documentation: what each command in a code block names exists, and every link has a target."""

from __future__ import annotations

import re

import doc_commands
import paths
import pytest

ROOT = paths.ROOT
PAGES = paths.find_files("*.md", "docs/**/*.md", "examples/*/*.md", "runtime/*.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_are_real_and_links_lead_to_files_and_headings(page, program_answers):
    text = page.read_text(encoding="utf-8")
    assert doc_commands.find_faults(text, program_answers) == []
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading:
            titles = re.findall(r"(?m)^#+ (.*)$", linked.read_text(encoding="utf-8"))
            assert heading in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in titles}


@pytest.mark.parametrize("page", ["README.md", "BUILD.md", "docs/pretrained.md"])
def test_the_export_is_evaluated_and_its_report_has_a_character_error_rate(page):
    """An acoustic model alone writes syllables, so a report of it has no character error rate."""
    commands = doc_commands.commands((ROOT / page).read_text(encoding="utf-8"))
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
    assert doc_commands.find_faults(PAGE, program_answers) == [
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
