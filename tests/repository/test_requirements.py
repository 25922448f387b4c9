"""Pinned requirements: one version of each package for each Python, within the bounds of pyproject.toml."""

from __future__ import annotations

import re

import paths
import pytest
from packaging import requirements, specifiers, utils

from tfrecord_builder.runtime import tensorflow_release

ROOT = paths.ROOT
FILES = ("requirements.txt", "requirements-dev.txt")
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")


def read(name):
    """The requirements of a file, without its comments."""
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    return [requirements.Requirement(line) for line in lines if line and not line.startswith("-r ")]


def pyproject():
    """The requirements of pyproject.toml, with those of its extras; tomllib is missing before Python 3.11."""
    listed = re.findall(r"""^ +["']([a-z0-9-]+(?:\[s3\])?[>=<].*)["'],""", text(), re.MULTILINE)
    listed += re.findall(r"""^[a-z]+ = \["(.*==.*)"\]""", text(), re.MULTILINE)
    return [requirements.Requirement(requirement) for requirement in listed]


def text():
    return (ROOT / "pyproject.toml").read_text()


def choose(found, python):
    environment = {"python_version": python, "python_full_version": f"{python}.20", "extra": ""}
    return [one for one in found if one.marker is None or one.marker.evaluate(environment)]


def pins(python, names=FILES):
    found = choose([one for name in names for one in read(name)], python)
    chosen = {utils.canonicalize_name(one.name): str(one.specifier)[2:] for one in found}
    assert len(chosen) == len(found), "a package is pinned twice"
    return chosen


@pytest.mark.parametrize("name", FILES)
def test_requirements_are_pinned_and_name_no_host(name):
    found = read(name)
    assert found and all(re.fullmatch(r"==[^,*]+", str(one.specifier)) for one in found)
    content = (ROOT / name).read_text()
    assert "://" not in content.replace("s3://", "")
    assert "--index" not in content and "--find-links" not in content


@pytest.mark.parametrize("python", PYTHONS)
def test_pins_satisfy_the_bounds_of_the_package(python):
    pinned = pins(python)
    bounds = choose(pyproject(), python)
    assert len(bounds) > 30
    wrong = {one.name: pinned.get(one.name) for one in bounds if pinned.get(one.name) not in one.specifier}
    assert wrong == {}


@pytest.mark.parametrize("python", PYTHONS)
def test_dependencies_are_pinned_among_the_run_time_requirements(python):
    dependencies = text().split("dependencies = [")[1].split("\n]")[0]
    listed = re.findall(r'^  "(.*)",', dependencies, re.MULTILINE)
    needed = choose([requirements.Requirement(one) for one in listed], python)
    assert len(needed) > 20
    assert {one.name for one in needed} <= set(pins(python, ["requirements.txt"]))


@pytest.mark.parametrize("python", PYTHONS)
def test_each_python_has_its_tensorflow(python):
    pinned = pins(python)
    is_new = python in ("3.12", "3.13")
    release = tensorflow_release.for_python(tuple(map(int, python.split("."))))
    assert release and tensorflow_release.find(pinned["tensorflow"]) == release
    assert pinned["tensorflow"] == ("2.21.0" if is_new else "2.15.1")
    assert pinned["tensorflow-estimator"] == "2.15.0"
    assert ("tensorflow-io" in pinned, "tf-keras" in pinned) == (not is_new, is_new)
    assert ("torch" in pinned) == (python == "3.11")


def test_the_makefile_the_package_and_the_pins_name_the_same_pythons():
    (requires,) = re.findall(r'^requires-python = "(.*)"', text(), re.MULTILINE)
    supported = specifiers.SpecifierSet(requires)
    assert [f"3.{minor}" for minor in range(6, 20) if f"3.{minor}" in supported] == list(PYTHONS)
    assert tuple(re.findall(r"Python :: (3\.[0-9]+)", text())) == PYTHONS
    (newer, older) = re.findall(r"^VERSIONS := .*echo (3.*)\) (3.*)$", (ROOT / "Makefile").read_text(), re.M)[
        0
    ]
    assert tuple(reversed(f"{newer} {older}".split())) == PYTHONS
