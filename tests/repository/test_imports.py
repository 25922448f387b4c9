"""Who may import whom: the contracts of pyproject.toml, and what they cannot say."""

from __future__ import annotations

import ast
import graphlib
import pathlib
import shutil
import subprocess
import sys

import grimp
import paths
import pytest

ROOT = paths.ROOT
PACKAGES = ("tfrecord_builder", "estimator_asr")
BIN = pathlib.Path(sys.executable).parent


def modules():
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files)


@pytest.mark.parametrize(
    "file, line, broken",
    [
        (None, "", []),
        ("tfrecord_builder/errors.py", "import estimator_asr.train", ["nothing climbs"]),
        ("tfrecord_builder/corpora/kaldi.py", "import tfrecord_builder.building.builder", ["rooms of tfr"]),
        ("estimator_asr/experiment/config.py", "import tfrecord_builder.labels.pinyin", ["the contract"]),
        (
            "estimator_asr/inputs/input_fn.py",
            "import estimator_asr.models.layers",
            ["rooms of estimator_asr"],
        ),
        ("estimator_asr/training/loop.py", "import estimator_asr.saved_model.cascade", ["Training knows"]),
        ("estimator_asr/server/app.py", "import estimator_asr.models.layers", ["A SavedModel runs"]),
        ("estimator_asr/scoring/error_rate.py", "import tensorflow", ["Python and NumPy"]),
        ("estimator_asr/models/layers.py", "import os.path", ["Models know no files"]),
    ],
)
def test_the_contracts_hold_and_a_breach_is_found(file, line, broken, tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    if file:
        with open(tmp_path / file, "a") as source:
            source.write(f"\n{line}\n")
    command = [BIN / "lint-imports", "--no-cache"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == bool(broken), done.stdout
    names = [each for each in done.stdout.splitlines() if "BROKEN" in each]
    assert all(any(part in name for name in names) for part in broken), names


def test_ruff_finds_what_models_must_not_use():
    source = "import tensorflow as tf\n\ntf.io.x()\ntf.compat.v1.summary.x()\ntf.estimator.x()\n"
    command = [
        BIN / "ruff",
        "check",
        "--stdin-filename=estimator_asr/models/x.py",
        "--output-format=concise",
        "-",
    ]
    done = subprocess.run(command, cwd=ROOT, input=source, capture_output=True, text=True)
    assert done.stdout.count("TID251") == 3, done.stdout


def test_no_import_leads_back():
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError with the circle
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter({**imports, "tfrecord_builder.errors": {"estimator_asr.train"}}).prepare()


def test_no_program_is_imported():
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    programs = [name for name in modules() if '__name__ == "__main__"' in read(name)]
    assert len(programs) > 15
    assert {name: graph.find_modules_that_directly_import(name) for name in programs} == dict.fromkeys(
        programs, set()
    )


def read(name):
    return (ROOT / name.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")


def test_packages_are_a_docstring_alone():
    for name in modules():
        if name.endswith("__init__"):
            (only,) = ast.parse(read(name)).body
            assert isinstance(only, ast.Expr) and isinstance(only.value.value, str), name


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_packages_loads_no_tensorflow():
    imports = "; ".join(f"import {name[:-9]}" for name in modules() if name.endswith("__init__"))
    assert run_python(f"import sys; {imports}; print('tensorflow' in sys.modules)") == "False"


def test_importing_a_module_defines_no_flag():
    imports = "; ".join(f"import {name}" for name in modules())
    count = "import absl.app, absl.logging, tensorflow; from absl import flags; known = set(flags.FLAGS)"
    assert run_python(f"{count}; {imports}; print(sorted(set(flags.FLAGS) - known))") == "[]"
