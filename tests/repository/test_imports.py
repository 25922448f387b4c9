"""Rules for imports that the contracts in pyproject.toml (`make lint`) cannot express."""

import ast
import functools
import graphlib
import re

import grimp
import paths
import pytest

PACKAGES = ("tfrecord_builder", "estimator_asr", "estimator_asr_runtime")
FILES = paths.find_files(*(f"{package}/**/*.py" for package in PACKAGES))
build_graph = functools.lru_cache(grimp.build_graph)


def test_imports_form_no_circle():
    graph = build_graph(*PACKAGES, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError with the circle


def test_no_program_is_imported():
    graph = build_graph(*PACKAGES, cache_dir=None)
    programs = [path for path in FILES if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(paths.ROOT).with_suffix("").parts) for path in programs]
    assert len(names) > 15
    assert [name for name in names if graph.find_modules_that_directly_import(name)] == []


def test_init_files_contain_only_a_docstring():
    """Importing a package must not load TensorFlow."""
    for path in FILES:
        if path.name == "__init__.py":
            (only,) = ast.parse(path.read_text(encoding="utf-8")).body
            assert isinstance(only, ast.Expr) and isinstance(only.value.value, str), path


@pytest.mark.parametrize(
    "title, root, most", [("a row of a manifest", "tfrecord_builder", 16), ("a record", "estimator_asr", 14)]
)
def test_each_file_of_a_walk_is_imported_by_one_before_it(title, root, most):
    text = (paths.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = re.search(rf"From {title} to .*?:\n\n(.*?)\n\n", text, re.DOTALL)[1]
    named = re.findall(r"^\d+\. `(.+?)\.py`: ", section, re.MULTILINE)
    files = [name if name.startswith(PACKAGES) else f"{root}/{name}" for name in named]
    modules = [name.replace("/", ".") for name in files]
    graph = build_graph(*PACKAGES, cache_dir=None)
    assert set(modules) <= graph.modules and 10 < len(modules) <= most
    for number, module in enumerate(modules[1:], 1):
        importers = graph.find_modules_that_directly_import(module)
        assert importers & set(modules[:number]) or module.endswith((".model_fn", ".acoustic_task")), module
