"""Console scripts: `tfrecord-builder build ...` and `estimator-asr train ...` run the programs by name.

They take the same flags as `python -m tfrecord_builder.build`. A `--flagfile=flags/...` that the working
directory does not have is taken from the installation.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.metadata
import importlib.util
import pathlib
import runpy
import sys

PROGRAMS = {
    "tfrecord_builder": ("download", "build", "verify", "show"),
    "estimator_asr": (
        *("demo", "encode", "train", "train_ngram", "tune", "evaluate", "average"),
        *("export", "transcribe", "serve", "doctor", "replay", "show_weights"),
    ),
}


def tfrecord_builder() -> None:
    """Runs the program of tfrecord_builder that the first argument names."""
    _run("tfrecord_builder")


def estimator_asr() -> None:
    """Runs the program of estimator_asr that the first argument names."""
    _run("estimator_asr")


def _run(package: str) -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name not in PROGRAMS[package]:
        is_help = name in ("-h", "--help", "help")
        print(_usage(package), file=sys.stdout if is_help else sys.stderr)
        sys.exit(0 if is_help else f"error: {name} is not a program, expected one of those above")
    sys.argv[1:] = [_with_installed_flags(word) for word in sys.argv[2:]]
    runpy.run_module(f"{package}.{name}", run_name="__main__", alter_sys=True)


def _usage(package: str) -> str:
    lines = [f"  {name:<16} {_summary(f'{package}.{name}')}" for name in PROGRAMS[package]]
    script = package.replace("_", "-")
    return "\n".join(
        [f"usage: {script} PROGRAM [--flags]; {script} PROGRAM --help lists its flags", "", *lines]
    )


def _summary(module: str) -> str:
    """Returns the first line of the docstring of a program, which is not imported for that."""
    spec = importlib.util.find_spec(module)
    paths = [pathlib.Path(spec.origin), pathlib.Path(spec.origin).with_name("__main__.py")]
    path = paths[1] if spec.submodule_search_locations else paths[0]
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0]


def _with_installed_flags(word: str) -> str:
    option, _, path = word.partition("=")
    if option.lstrip("-") == "flagfile" and not pathlib.Path(path).exists():
        return f"{option}={find_flag_file(path)}"
    return word


def find_flag_file(path: str) -> str:
    """Returns where the installation has a flag file (flags/demo/build.flags), or `path` if it has none."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("estimator-asr") or ():
            if file.match(f"share/estimator_asr/{path}"):
                return str(file.locate())
    return path
