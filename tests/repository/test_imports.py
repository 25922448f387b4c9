"""What the contracts of pyproject.toml (`make lint`) cannot say about imports."""

from __future__ import annotations

import ast
import functools
import graphlib

import grimp
import paths

PACKAGES = ("tfrecord_builder", "estimator_asr", "estimator_asr_runtime")
FILES = paths.find_files(*(f"{package}/**/*.py" for package in PACKAGES))
build_graph = functools.lru_cache(grimp.build_graph)


def test_no_import_leads_back():
    graph = build_graph(*PACKAGES, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError with the circle


def test_no_program_is_imported():
    graph = build_graph(*PACKAGES, cache_dir=None)
    programs = [path for path in FILES if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(paths.ROOT).with_suffix("").parts) for path in programs]
    assert len(names) > 15
    assert [name for name in names if graph.find_modules_that_directly_import(name)] == []


def test_packages_are_a_docstring_alone():
    """So importing one loads no TensorFlow."""
    for path in FILES:
        if path.name == "__init__.py":
            (only,) = ast.parse(path.read_text(encoding="utf-8")).body
            assert isinstance(only, ast.Expr) and isinstance(only.value.value, str), path
