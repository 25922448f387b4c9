"""Documentation: programs and Makefile accept every command in a code block, and every link has a target."""

from __future__ import annotations

import pathlib
import re
import shlex

import program_flags
import pytest

ROOT = program_flags.ROOT
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")])
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The words of each command in the code blocks of a page, without comments, parted at pipes and &&."""
    found = []
    for block in _BLOCK.findall(page):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|\||[|;]", re.sub(r"^\s*\$ ", "", line)):
                if re.search(r"\bpython[0-9.]* -m |^\s*make\b", part):
                    found.append(shlex.split(part.replace("[", " ").replace("]", " "), comments=True))
    return [words for words in found if words]


def faults(words: list[str], known: dict[str, dict[str, bool]], targets: set[str]) -> list[str]:
    """What is wrong with a command."""
    if words[0] == "make":
        named = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        return [f"make {target}: no such target" for target in named if target not in targets]
    module, *rest = words[words.index("-m") + 1 :] if "-m" in words else [""]
    if module.split(".")[0] not in ("tfrecord_builder", "estimator_asr"):
        return []
    if module not in known:
        return [f"{module}: no such program"]
    flags = [word for word in rest if word.startswith("--")]
    return [fault for flag in flags for fault in _flag_faults(module, flag, known[module])]


def _flag_faults(module: str, flag: str, known: dict[str, bool]) -> list[str]:
    name, equals, value = flag[2:].partition("=")
    is_negated = not equals and name.startswith("no") and known.get(name[2:], False)
    if name not in known and not is_negated:
        return [f"{module}: no flag --{name}"]
    if not equals and not is_negated and not known[name]:
        return [f"{module}: --{name} needs =VALUE"]
    if name == "flagfile" and not (ROOT / value).is_file():
        return [f"{module}: {value} does not exist"]
    return []


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(pathlib.Path(page).relative_to(ROOT)))
def test_commands_are_real(page, program_answers):
    known = {module: answer["flags"] for module, answer in program_answers.items()}
    wrong = [
        fault
        for words in commands(page.read_text(encoding="utf-8"))
        for fault in faults(words, known, make_targets())
    ]
    assert wrong == []


def test_pages_show_commands():
    for name in ("README.md", "BUILD.md", "CONTRIBUTING.md"):
        assert commands((ROOT / name).read_text(encoding="utf-8")), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(pathlib.Path(page).relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for target, heading in re.findall(
        r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")
    ):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading:
            titles = re.findall(r"(?m)^#+ (.*)$", linked.read_text(encoding="utf-8"))
            assert heading in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in titles}


PAGE = """
Not here: `python -m estimator_asr.nowhere`.
```bash
make demo       # all of it
$ .venv/bin/python -m estimator_asr.train --model=acoustic \\
    --noxla --data_dir=DATA && tensorboard --logdir=AM
python -m estimator_asr.train [--xla] --epochs 3
```
"""


def test_checker_reads_the_commands_of_a_page():
    assert [words[:4] for words in commands(PAGE)] == [
        ["make", "demo"],
        [".venv/bin/python", "-m", "estimator_asr.train", "--model=acoustic"],
        ["python", "-m", "estimator_asr.train", "--xla"],
    ]


@pytest.mark.parametrize(
    "command, said",
    [
        ("make demo", []),
        ("make tea", ["make tea: no such target"]),
        ("python -m estimator_asr.train --xla --noxla --model=language", []),
        ("python -m estimator_asr.train --nomodel", ["estimator_asr.train: no flag --nomodel"]),
        ("python -m estimator_asr.train --model", ["estimator_asr.train: --model needs =VALUE"]),
        ("python -m estimator_asr.train --colour=red", ["estimator_asr.train: no flag --colour"]),
        ("python -m estimator_asr.nowhere", ["estimator_asr.nowhere: no such program"]),
        (
            "python -m estimator_asr.train --flagfile=flags/x.flags",
            ["estimator_asr.train: flags/x.flags does not exist"],
        ),
        ("python -m venv .venv", []),
    ],
)
def test_checker_finds_faults(command, said):
    known = {"estimator_asr.train": {"xla": True, "model": False, "flagfile": False}}
    assert faults(command.split(), known, {"demo"}) == said
