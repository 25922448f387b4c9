"""Checks package versions, cores, memory and disk space without importing TensorFlow, which may be broken."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator

from estimator_asr.monitoring.diagnostics.doctor import findings
from tfrecord_builder.program import cpu, tensorflow_release

_TESTED = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos")
_DISTRIBUTIONS = (*_TESTED, "tensorflow-rocm", "tf-nightly", "tf-nightly-cpu")
# Dependencies of TensorFlow that are always shown; others are shown only if missing or of the wrong version.
_SHOWN = ("numpy", "keras", "protobuf", "h5py")
# A default-size model and its batch need about 3 GB of memory; its checkpoints need 1 GB of disk space.
_MEMORY_GB = 4.0
_DISK_GB = 2.0
_INSTALL = "install the pinned versions with pip install -r requirements.txt"


def check_versions() -> Iterator[findings.Finding]:
    """Yields findings about Python, TensorFlow, and the packages that must be compatible with TensorFlow."""
    python = sys.version_info[:3]
    release = tensorflow_release.for_python(python)
    yield _check_python(_text(python), release)
    name = next(filter(_version, _DISTRIBUTIONS), "tensorflow")
    tensorflow = _check_tensorflow(name, release)
    yield tensorflow
    if tensorflow.level == findings.PROBLEM:  # the requirements of a wrong version do not matter
        return
    if _version("packaging") is None:
        yield findings.problem(f"packaging, which {name} requires, is not installed; {_INSTALL}")
        return
    yield from _check_packages(name, release)


def _check_python(version, release):
    if release:
        return findings.ok(f"python {version}")
    releases = tensorflow_release.RELEASES
    first, last = _text(releases[0].first_python), _text(releases[-1].last_python)
    return findings.problem(
        f"python is {version}, expected {first} to {last}; create an environment with one of these versions"
    )


def _check_tensorflow(name, release):
    version = _version(name)
    expected = f"{release.version}.*" if release else " or ".join(map(str, tensorflow_release.RELEASES))
    if version is None or release is None or tensorflow_release.find(version) != release:
        return findings.problem(_misfit(name, expected))
    if name not in _TESTED:
        return findings.warning(f"{name} {version} has not been tested with these programs; {_INSTALL}")
    return findings.ok(f"{name} {version}")


def _check_packages(tensorflow, release):
    """Yields findings about the packages that the installed TensorFlow or these programs require."""
    from packaging import requirements, specifiers  # installed with TensorFlow

    required = map(requirements.Requirement, importlib.metadata.requires(tensorflow) or ())
    expected = {
        requirement.name: requirement.specifier
        for requirement in required
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }
    ours = {"tensorflow-estimator": "2.15", "tensorboard": release.version}
    if release.tensorflow_io:
        ours["tensorflow-io"] = release.tensorflow_io
    expected.update({name: specifiers.SpecifierSet(f"=={version}.*") for name, version in ours.items()})
    for name, versions in expected.items():
        version = _version(name)
        if version is None or not versions.contains(version, prereleases=True):
            is_optional = name == "tensorflow-io"  # needed only for rarely used file systems
            yield (findings.warning if is_optional else findings.problem)(_misfit(name, versions))
        elif name in (*ours, *_SHOWN):
            yield findings.ok(f"{name} {version}")


def _misfit(name, expected):
    version = _version(name)
    fault = f"is {version}, expected {expected}" if version else f"{expected} is required but not installed"
    return f"{name} {fault}; {_INSTALL}"


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _text(version):
    return ".".join(map(str, version))


def check_machine(directory: str) -> Iterator[findings.Finding]:
    """Yields findings about cores, memory and the disk space for `directory`, which need not exist yet."""
    yield findings.ok(f"{cpu.count_cores()} CPU cores")
    fix = "end other programs, or train with a smaller --batch_frames"
    yield judge_space(available_memory_gb(), "of memory available", _MEMORY_GB, fix)
    path = os.path.abspath(directory)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    free, fix = shutil.disk_usage(path).free / 1e9, "delete files or choose another disk"
    yield judge_space(free, f"of disk space free for {directory}", _DISK_GB, fix)


def judge_space(gigabytes: float, what: str, needed: float, fix: str) -> findings.Finding:
    """Returns ok if there is at least as much memory or disk space as needed, otherwise a warning."""
    if gigabytes >= needed:
        return findings.ok(f"{gigabytes:.1f} GB {what}")
    return findings.warning(f"{gigabytes:.1f} GB {what}, expected {needed:.0f} GB or more; {fix}")


def available_memory_gb(root: str = "/") -> float:
    """Returns the memory in GB that is available on this machine or, if less, in this container."""
    meminfo = pathlib.Path(root, "proc/meminfo").read_text()
    available = int(re.search(r"MemAvailable:\s*(\d+) kB", meminfo).group(1)) * 1024
    cgroup = pathlib.Path(root, "sys/fs/cgroup")
    try:
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # not in a container, or the container's limit is "max"
        return available / 1e9
    return min(available, limit - used) / 1e9
