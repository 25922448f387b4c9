"""Private names of other packages: those of CONTRIBUTING.md alone; and the checker on made-up modules."""

from __future__ import annotations

import ast
import re

import paths
import pytest

PACKAGES = ("estimator_asr", "tfrecord_builder")
NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}  # public: collections.namedtuple has them
_INTERNAL_MODULE = re.compile(r"tensorflow\w*\.(python|core|compiler|lite\.python)(\.|$)|.*\._")


def private_names(source: str) -> set[str]:
    """Returns the private names that a module uses and does not define.

    These are attributes with an underscore, also as text for getattr and setattr ({} is the part that an
    f-string fills in), and internal modules of TensorFlow.
    """
    nodes = list(ast.walk(ast.parse(source)))
    return {name for node in nodes for name in _used(node)} - _defined(nodes)


def _used(node):
    if isinstance(node, ast.Attribute):
        return [node.attr] if _is_private(node.attr) else []
    if isinstance(node, ast.ImportFrom):
        modules = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        return [module for module in modules if _INTERNAL_MODULE.match(module)][:1]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if _INTERNAL_MODULE.match(alias.name)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("attr"):
        return [text for text in map(_text, node.args[1:2]) if _is_private(text)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        is_module = re.fullmatch(r"[\w.]+", node.value) and _INTERNAL_MODULE.match(node.value)
        return [node.value] if is_module else []
    return []


def _text(node):
    """The text of a string; {} is what an f-string fills in, and anything that is no string is empty."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_private(name):
    return name.startswith("_") and not name.endswith("__") and name not in NAMED_TUPLE


def _defined(nodes):
    """Names of functions, classes, variables, and attributes of self and cls that a module assigns."""
    functions = {
        n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    stored = [n for n in nodes if isinstance(getattr(n, "ctx", None), ast.Store)]
    variables = {n.id for n in stored if isinstance(n, ast.Name)}
    attributes = {n.attr for n in stored if isinstance(n, ast.Attribute) and _is_own(n.value)}
    return functions | variables | attributes


def _is_own(node):
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def read_table() -> dict[str, set[str]]:
    """Returns the names by file."""
    section = (paths.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## Private names\n")[1]
    rows = [line.split(" | ") for line in section.split("\n## ")[0].splitlines() if line.startswith("| `")]
    table = {}
    for names, where, why in rows:
        assert why.strip(" |"), names
        (file,) = re.findall(r"`(.+?)`", where)
        table.setdefault(file, set()).update(re.findall(r"`(.+?)`", names))
    return table


def test_the_table_lists_all_private_names_and_no_others():
    found = {}
    for package in PACKAGES:
        for path in sorted((paths.ROOT / package).rglob("*.py")):
            if names := private_names(path.read_text(encoding="utf-8")):
                found[path.relative_to(paths.ROOT).as_posix()] = names
    assert found == read_table()


@pytest.mark.parametrize(
    "source, names",
    [
        ("optimizer._distributed_apply(strategy)", {"_distributed_apply"}),
        ("class Ours(Theirs):\n    def f(self):\n        return super()._prepare()", {"_prepare"}),
        ("class Ours(Theirs):\n    def f(self):\n        return self._timer", {"_timer"}),
        ("getattr(tqdm.tqdm, '_instances', ())", {"_instances"}),
        ("setattr(config, f'_{name}_distribute', 1)", {"_{}_distribute"}),
        ("from tensorflow.python.framework import ops", {"tensorflow.python.framework"}),
        ("from tensorflow import python", {"tensorflow.python"}),
        ("def f():\n    import tensorflow.core.protobuf.config_pb2", {"tensorflow.core.protobuf.config_pb2"}),
        ("sys.modules['tensorflow.python.eager'] = ours", {"tensorflow.python.eager"}),
        ("from concurrent import _base\nfrom absl import _x", {"concurrent._base", "absl._x"}),
    ],
)
def test_a_made_up_private_name_is_found(source, names):
    assert private_names(source) == names


@pytest.mark.parametrize(
    "source",
    [
        "class Ours:\n    def __init__(self):\n        self._x = 1\n    def f(self):\n        return self._x",
        "class Ours:\n    _x: int\n    def f(self):\n        return self._x",
        "def _f():\n    return row._replace(x=1)._asdict(), type(row)._fields, row.__class__.__name__\n_f()",
        "from tensorflow.python_io import x\nprint('tensorflow.python is private')",
        "tf.raw_ops.ResourceApplyAdam(var=variable.handle)",
    ],
)
def test_public_names_and_our_own_are_no_breach(source):
    assert private_names(source) == set()
