"""Versions of the installed packages; imports none, as a TensorFlow that cannot be imported is a finding."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator

from estimator_asr.diagnostics.doctor import findings

_PYTHONS = ((3, 9), (3, 11))
_TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tensorflow-intel")
_RELEASES = {"tensorflow-estimator": "2.15.", "keras": "2.15.", "tensorboard": "2.15.", "numpy": "1."}
_OPTIONAL = {"tensorflow-io": "0.36."}  # only object stores need it
_INSTALL = "install the pinned versions with pip install -r requirements.txt"


def check() -> Iterator[findings.Finding]:
    """Yields a finding for Python and for each package that must fit the others."""
    yield _check_python(sys.version_info[:3])
    tensorflow = next((name for name in _TENSORFLOWS if _version(name)), _TENSORFLOWS[0])
    for name, release in {tensorflow: "2.15.", **_RELEASES}.items():
        yield _check_package(name, release, findings.problem)
    for name, release in _OPTIONAL.items():
        yield _check_package(name, release, findings.warning)


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _check_python(version):
    text = ".".join(map(str, version))
    if _PYTHONS[0] <= version[:2] <= _PYTHONS[1]:
        return findings.ok(f"python {text}")
    return findings.problem(
        f"python is {text}, expected 3.9, 3.10 or 3.11; create a new environment with one of them"
    )


def _check_package(name, release, complain):
    version = _version(name)
    if version is None:
        return complain(f"{name} is not installed, expected {release}*; {_INSTALL}")
    if not version.startswith(release):
        return complain(f"{name} is {version}, expected {release}*; {_INSTALL}")
    return findings.ok(f"{name} {version}")
