"""Versions of what is installed. Loads nothing: a TensorFlow that cannot be imported is a finding too."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from typing import NamedTuple, Optional

from estimator_asr.diagnostics.doctor import findings

_PYTHONS = ((3, 9), (3, 11))
_INSTALL = "install the pinned versions with pip install -r requirements.txt"


class _Package(NamedTuple):
    """Distributions that give it (the first is usual), the release that fits, and whether all needs it."""

    names: tuple[str, ...]
    release: str
    is_needed: bool = True


_PACKAGES = (
    _Package(("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tensorflow-intel"), "2.15."),
    _Package(("tensorflow-estimator",), "2.15."),
    _Package(("keras",), "2.15."),
    _Package(("tensorboard",), "2.15."),
    _Package(("numpy",), "1."),
    _Package(("tensorflow-io",), "0.36.", is_needed=False),  # object stores alone
)


def check() -> Iterator[findings.Finding]:
    """Yields a finding for Python and for each package that must fit the others."""
    yield _check_python(sys.version_info[:3])
    for package in _PACKAGES:
        found = {name: version for name in package.names if (version := _version(name))}
        yield _check_package(package, next(iter(found.items()), None))


def _version(name) -> Optional[str]:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _check_python(version):
    text = ".".join(map(str, version))
    if _PYTHONS[0] <= version[:2] <= _PYTHONS[1]:
        return findings.ok(f"python {text}")
    return findings.problem(
        f"python is {text}, expected 3.9, 3.10 or 3.11; make a new environment with one of them"
    )


def _check_package(package, found):
    complain = findings.problem if package.is_needed else findings.warning
    if found is None:
        return complain(f"{package.names[0]} is not installed, expected {package.release}*; {_INSTALL}")
    name, version = found
    if not version.startswith(package.release):
        return complain(f"{name} is {version}, expected {package.release}*; {_INSTALL}")
    return findings.ok(f"{name} {version}")
