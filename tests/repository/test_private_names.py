"""Private names of other packages: those of CONTRIBUTING.md alone."""

from __future__ import annotations

import re

import paths
import private_names

PACKAGES = ("estimator_asr", "estimator_asr_runtime", "tfrecord_builder")


def read_table() -> dict[str, set[str]]:
    """Returns the names by file."""
    section = (paths.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## Private names\n")[1]
    rows = re.compile(r"^\| (`.+`) \| `(.+)` \| \S.* \|$", re.MULTILINE)
    table = {}
    for names, file in rows.findall(section.split("\n## ")[0]):
        table.setdefault(file, set()).update(re.findall(r"`(.+?)`", names))
    return table


def test_the_table_has_every_private_name_and_no_other():
    """The code uses nearly every kind of private name, so this proves the checker too."""
    files = paths.find_files(*(f"{package}/**/*.py" for package in PACKAGES))
    names = {
        path.relative_to(paths.ROOT).as_posix(): private_names.find_all(path.read_text("utf-8"))
        for path in files
    }
    assert {file: used for file, used in names.items() if used} == read_table()


def test_an_import_and_a_field_that_the_code_has_not_are_told_apart():
    source = "import tensorflow.core.x\nclass Ours:\n    _x: int\n    def f(self):\n        return self._x"
    assert private_names.find_all(source) == {"tensorflow.core.x"}
