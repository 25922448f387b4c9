"""Private names of other packages: those of CONTRIBUTING.md alone; and the checker on made-up modules."""

from __future__ import annotations

import ast
import re

import paths
import pytest

PACKAGES = ("estimator_asr", "tfrecord_builder")
NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}  # public: collections.namedtuple has them
_INTERNAL_MODULE = re.compile(r"tensorflow\w*\.(python|core|compiler|lite\.python)(\.|$)|.*\._")
_IS_PRIVATE = re.compile(r"_(?!.*__$)").match


def private_names(source: str) -> set[str]:
    """Returns the private names that a module uses and does not define.

    These are attributes with an underscore, also as text for getattr and setattr ({} is the part that an
    f-string fills in), and internal modules of TensorFlow.
    """
    used, defined = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute):
            is_own = isinstance(node.ctx, ast.Store) and ast.unparse(node.value) in ("self", "cls")
            (defined if is_own else used).add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):
            used.update(_text(argument) for argument in node.args[1:2])
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            used.update([name for name in imported if _INTERNAL_MODULE.match(name)][:1])
        elif isinstance(node, ast.Import):
            used.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"tensorflow[\w.]+", str(node.value)):
            used.add(str(node.value))
    return {
        name for name in used - defined - NAMED_TUPLE if _IS_PRIVATE(name) or _INTERNAL_MODULE.match(name)
    }


def _text(node):
    """The text of a string; {} is what an f-string fills in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


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
