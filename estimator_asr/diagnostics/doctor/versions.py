"""Versions of the installed packages; imports none, as a TensorFlow that cannot be imported is a finding."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator

from estimator_asr.diagnostics.doctor import findings
from tfrecord_builder.runtime import tensorflow_release

# Distributions that install the module tensorflow, and why one is worth a warning.
_DISTRIBUTIONS = {
    "tensorflow": "",
    "tensorflow-cpu": "",
    "tensorflow-intel": "",
    "tensorflow-macos": "",
    "tensorflow-rocm": "a build for AMD GPUs, which is not tested with these programs",
    "tf-nightly": "a development build, which is not tested with these programs",
    "tf-nightly-cpu": "a development build, which is not tested with these programs",
}
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
    yield from _check_packages(name)


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
    if version is None:
        return findings.problem(f"{name} is not installed, expected {expected}; {_INSTALL}")
    if release is None or _minor(version) != release.version:
        return findings.problem(f"{name} is {version}, expected {expected}; {_INSTALL}")
    if _DISTRIBUTIONS[name]:
        return findings.warning(f"{name} {version} is {_DISTRIBUTIONS[name]}; {_INSTALL}")
    return findings.ok(f"{name} {version}")


def _check_packages(tensorflow):
    """Yields whether the packages fit that the installed TensorFlow and these programs require."""
    from packaging import specifiers  # installed with TensorFlow

    minor = _minor(_version(tensorflow))
    ours = {"tensorflow-estimator": "==2.15.*", "tensorboard": f"=={minor}.*"}
    expected = {**_required(tensorflow), **{name: specifiers.SpecifierSet(ours[name]) for name in ours}}
    for name, versions in expected.items():
        finding = _check_package(name, versions, findings.problem)
        if finding.level != findings.OK or name in (*ours, *_SHOWN):
            yield finding
    release = tensorflow_release.find(minor)
    if release and release.tensorflow_io:  # only rare file systems need it
        fitting = specifiers.SpecifierSet(f"=={release.tensorflow_io}.*")
        yield _check_package("tensorflow-io", fitting, findings.warning)


def _required(tensorflow):
    """Returns the versions of each package that the installed TensorFlow requires."""
    from packaging import requirements

    found = map(requirements.Requirement, importlib.metadata.requires(tensorflow) or ())
    return {
        one.name: one.specifier for one in found if one.marker is None or one.marker.evaluate({"extra": ""})
    }


def _check_package(name, expected, complain):
    version = _version(name)
    if version is None:
        return complain(f"{name} is not installed, expected {expected}; {_INSTALL}")
    if not expected.contains(version, prereleases=True):
        return complain(f"{name} is {version}, expected {expected}; {_INSTALL}")
    return findings.ok(f"{name} {version}")


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _minor(version):
    return ".".join(version.split(".")[:2])


def _text(version):
    return ".".join(map(str, version))
