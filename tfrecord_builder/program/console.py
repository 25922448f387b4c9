"""Console scripts: `tfrecord-builder build ...` runs the program `build` in the package tfrecord_builder.

The flags are the same as for `python -m tfrecord_builder.build`. If the file in `--flagfile=flags/...`
does not exist, its installed copy is used.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import pathlib
import runpy
import sys
from collections.abc import Sequence


def run(package: str, programs: Sequence[str]) -> None:
    """Runs one of a package's programs; the first command-line argument is the program's name."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name not in programs:
        is_help = name in ("-h", "--help", "help")
        print(_usage(package, programs), file=sys.stdout if is_help else sys.stderr)
        sys.exit(0 if is_help else f"error: there is no program {name}; choose a program from the list above")
    sys.argv[1:] = [_with_installed_flags(word) for word in sys.argv[2:]]
    runpy.run_module(f"{package}.{name}", run_name="__main__", alter_sys=True)


def _usage(package: str, programs: Sequence[str]) -> str:
    script = package.replace("_", "-")
    lines = [f"  {name:<16} {_summary(f'{package}.{name}')}" for name in programs]
    return "\n".join(
        [f"usage: {script} PROGRAM [--flags]; {script} PROGRAM --help lists its flags", "", *lines]
    )


def _summary(module: str) -> str:
    """Returns the first line of a program's docstring without importing the program."""
    path = pathlib.Path(importlib.util.find_spec(module).origin)
    if path.stem == "__init__":
        path = path.with_name("__main__.py")
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0]


def _with_installed_flags(word: str) -> str:
    option, _, path = word.partition("=")
    if option.lstrip("-") == "flagfile" and not pathlib.Path(path).exists():
        return f"{option}={find_flag_file(path)}"
    return word


def find_flag_file(path: str) -> str:
    """Returns the path of the installed copy of a flag file, such as flags/demo/build.flags.

    Returns `path` if there is no installed copy.
    """
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("estimator-asr") or ():
            if file.match(f"share/estimator_asr/{path}"):
                return str(file.locate())
    return path
