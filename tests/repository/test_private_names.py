"""Only the private names of other packages that CONTRIBUTING.md lists are used."""

import ast
import re

import paths

PACKAGES = ("estimator_asr", "estimator_asr_runtime", "tfrecord_builder")


def read_table() -> dict[str, set[str]]:
    """Returns the names listed in CONTRIBUTING.md for each file."""
    section = (paths.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## Private names\n")[1]
    rows = re.compile(r"^\| (`.+`) \| `(.+)` \| \S.* \|$", re.MULTILINE)
    table = {}
    for names, file in rows.findall(section.split("\n## ")[0]):
        table.setdefault(file, set()).update(re.findall(r"`(.+?)`", names))
    return table


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


def test_the_table_has_every_private_name_and_no_other():
    """The code uses nearly every kind of private name, so this tests find_all too."""
    files = paths.find_files(*(f"{package}/**/*.py" for package in PACKAGES))
    names = {path.relative_to(paths.ROOT).as_posix(): find_all(path.read_text("utf-8")) for path in files}
    assert {file: used for file, used in names.items() if used} == read_table()


def test_internal_imports_count_but_fields_of_own_classes_do_not():
    source = "import tensorflow.core.x\nclass Ours:\n    _x: int\n    def f(self):\n        return self._x"
    assert find_all(source) == {"tensorflow.core.x"}
