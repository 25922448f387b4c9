"""Private names of other packages that a module uses."""

from __future__ import annotations

import ast
import re

_NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}  # public: collections.namedtuple has them
_INTERNAL_MODULE = re.compile(r"tensorflow\w*\.(python|core|compiler|lite\.python)(\.|$)|.*\._")
_IS_PRIVATE = re.compile(r"_(?!.*__$)").match


def find_all(source: str) -> set[str]:
    """Returns the private names that a module uses and does not define.

    These are attributes with an underscore, also as text for getattr and setattr ({} is the part that an
    f-string fills in), and internal modules of TensorFlow.
    """
    used, defined = set(), set(_NAMED_TUPLE)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute):
            is_own = isinstance(node.ctx, ast.Store) and ast.unparse(node.value) in ("self", "cls")
            (defined if is_own else used).add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):
            words = [ast.unparse(argument).removeprefix("f").strip("'") for argument in node.args[1:2]]
            used.update(re.sub(r"{.*?}", "{}", word) for word in words)
        elif isinstance(node, ast.ImportFrom):
            imported = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            used.update([name for name in imported if _INTERNAL_MODULE.match(name)][:1])
        elif isinstance(node, ast.Import):
            used.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"tensorflow[\w.]+", str(node.value)):
            used.add(str(node.value))
    return {name for name in used - defined if _IS_PRIVATE(name) or _INTERNAL_MODULE.match(name)}
