"""Untracked files in a work tree (a demo, notebooks, data) do not change the results of tests and linters."""

import subprocess
import sys

import paths
import pytest

OURS = ("README.md", "flags/demo/build.flags", "estimator_asr/page/a.html", "estimator_asr/train.py")
THEIRS = """
    NOTES.md flags/mine/build.flags estimator_asr/.ipynb_checkpoints/train-checkpoint.py demo/text/report.html
    .venv/lib/a.py notebooks/a.ipynb data/a.py build/lib/estimator_asr/a.py
    """.split()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in (*OURS, *THEIRS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import  os\n")
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    return tmp_path


def find(*patterns):
    return [path.relative_to(paths.ROOT).as_posix() for path in paths.find_files(*patterns)]


def test_only_tracked_files_are_found(tree):
    for words in (["init", "-q"], ["add", *OURS]):
        subprocess.run(["git", *words], cwd=tree, check=True)
    assert find("**/*") == sorted(OURS)
    assert find("*.md", "flags/**/*") == ["README.md", "flags/demo/build.flags"]


@pytest.mark.parametrize("has_git", [True, False])
def test_without_a_repository_all_matching_files_are_found(tree, monkeypatch, has_git):
    if not has_git:
        monkeypatch.setenv("PATH", str(tree))
    assert find("estimator_asr/**/*.html", "flags/demo/*") == sorted(OURS[1:3])


def test_ruff_checks_only_the_code_of_the_project(tree):
    (tree / "pyproject.toml").write_bytes((paths.SUPPORT.parent.parent / "pyproject.toml").read_bytes())
    command = [sys.executable, "-m", "ruff", "check", "--show-files", "."]
    listed = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout.splitlines()
    names = {name.removeprefix(f"{tree}/") for name in listed}
    assert "estimator_asr/train.py" in names
    assert {name.partition("/")[0] for name in names} == {"estimator_asr"}
