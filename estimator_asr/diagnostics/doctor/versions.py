"""Versions of the installed packages; imports none, as a TensorFlow that cannot be imported is a finding."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator

from estimator_asr.diagnostics.doctor import findings
from tfrecord_builder.runtime import tensorflow_release

_TESTED = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos")
_DISTRIBUTIONS = (*_TESTED, "tensorflow-rocm", "tf-nightly", "tf-nightly-cpu")
_SHOWN = ("numpy", "keras", "protobuf", "h5py")  # of what TensorFlow requires; others only if they do not fit
_INSTALL = "install the pinned versions with pip install -r requirements.txt"


def check() -> Iterator[findings.Finding]:
    """Yields a finding for Python, TensorFlow, and each package that must fit TensorFlow."""
    python = sys.version_info[:3]
    release = tensorflow_release.for_python(python)
    yield _check_python(_text(python), release)
    name = next(filter(_version, _DISTRIBUTIONS), "tensorflow")
    tensorflow = _check_tensorflow(name, release)
    yield tensorflow
    if tensorflow.level == findings.PROBLEM:  # what it requires matters little
        return
    if _version("packaging") is None:
        yield findings.problem(f"packaging is not installed, which {name} requires; {_INSTALL}")
        return
    yield from _check_packages(name, release)


def _check_python(version, release):
    if release:
        return findings.ok(f"python {version}")
    releases = tensorflow_release.RELEASES
    first, last = _text(releases[0].first_python), _text(releases[-1].last_python)
    return findings.problem(
        f"python is {version}, expected {first} to {last}; create a new environment with one of them"
    )


def _check_tensorflow(name, release):
    version = _version(name)
    expected = f"{release.version}.*" if release else " or ".join(map(str, tensorflow_release.RELEASES))
    if version is None or release is None or tensorflow_release.find(version) != release:
        return findings.problem(_misfit(name, expected))
    if name not in _TESTED:
        return findings.warning(f"{name} {version} is not tested with these programs; {_INSTALL}")
    return findings.ok(f"{name} {version}")


def _check_packages(tensorflow, release):
    """Yields whether the packages fit that the installed TensorFlow and these programs require."""
    from packaging import requirements, specifiers  # installed with TensorFlow

    required = map(requirements.Requirement, importlib.metadata.requires(tensorflow) or ())
    expected = {
        each.name: each.specifier
        for each in required
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    ours = {"tensorflow-estimator": "2.15", "tensorboard": release.version}
    if release.tensorflow_io:
        ours["tensorflow-io"] = release.tensorflow_io
    expected.update({name: specifiers.SpecifierSet(f"=={version}.*") for name, version in ours.items()})
    for name, versions in expected.items():
        version = _version(name)
        if version is None or not versions.contains(version, prereleases=True):
            is_optional = name == "tensorflow-io"  # only rare file systems need it
            yield (findings.warning if is_optional else findings.problem)(_misfit(name, versions))
        elif name in (*ours, *_SHOWN):
            yield findings.ok(f"{name} {version}")


def _misfit(name, expected):
    version = _version(name)
    return f"{name} is {version or 'not installed'}, expected {expected}; {_INSTALL}"


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _text(version):
    return ".".join(map(str, version))
