"""Tests pinned requirements: one version of each package per Python, within the bounds in pyproject.toml."""

import itertools
import re
import sys

import paths
import pytest
from packaging import requirements, specifiers, utils

from tfrecord_builder.program import tensorflow_release

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = ("requirements.txt", "requirements-dev.txt")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
PROJECT = tomllib.loads((paths.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = itertools.chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
BOUNDS = [line for line in LINES if not line.startswith(PROJECT["name"])]  # leaves out its own extras


def read(name):
    """Returns the requirements in a file, without comments."""
    return re.findall(r"(?m)^(?!-r )[^#\n]+", (paths.ROOT / name).read_text(encoding="utf-8"))


def choose(lines, python):
    """Returns (name, allowed versions) for each requirement that applies to a Python version."""
    environment = {"python_version": python, "python_full_version": f"{python}.20", "extra": ""}
    parsed = map(requirements.Requirement, lines)
    chosen = [each for each in parsed if each.marker is None or each.marker.evaluate(environment)]
    return [(utils.canonicalize_name(each.name), each.specifier) for each in chosen]


def pins(python, *names):
    """Returns the version of each package; URLs and pip options are not accepted."""
    chosen = choose(itertools.chain(*map(read, names)), python)
    versions = {name: re.fullmatch(r"==([^,*]+)", str(specifier))[1] for name, specifier in chosen}
    assert len(versions) == len(chosen), "a package is pinned twice"
    return versions


@pytest.mark.parametrize("python", PYTHONS)
def test_pins_satisfy_the_bounds_of_the_package(python):
    pinned = pins(python, *FILES)
    bounds = choose(BOUNDS, python)
    assert {name: pinned.get(name) for name, bound in bounds if pinned.get(name, "0") not in bound} == {}
    run_time = {name for name, _ in choose(PROJECT["dependencies"], python)}
    assert run_time <= set(pins(python, "requirements.txt"))
    # Packages that only other Python versions need are not pinned; torch is needed by Lhotse.
    others = {utils.canonicalize_name(requirements.Requirement(line).name) for line in BOUNDS}
    assert set(pinned) & others == {name for name, _ in bounds}
    assert ("torch" in pinned) == ("lhotse" in pinned)
    release = tensorflow_release.for_python(tuple(map(int, python.split("."))))
    assert release and tensorflow_release.find(pinned["tensorflow"]) == release


def test_the_makefile_the_package_and_the_pins_name_the_same_pythons():
    supported = specifiers.SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{minor}" for minor in range(6, 20) if f"3.{minor}" in supported] == list(PYTHONS)
    assert re.findall(r"Python :: (3\.\d+)", str(PROJECT["classifiers"])) == list(PYTHONS)
    (line,) = re.findall("(?m)^VERSIONS := .*echo (3.*)$", (paths.ROOT / "Makefile").read_text())
    assert re.findall(r"3\.\d+", line) == list(reversed(PYTHONS))
