from __future__ import annotations

import importlib.metadata

import pytest

from estimator_asr.diagnostics.doctor import versions

GOOD = {
    "tensorflow": "2.15.1",
    "tensorflow-estimator": "2.15.0",
    "keras": "2.15.0",
    "tensorboard": "2.15.2",
    "numpy": "1.26.4",
    "tensorflow-io": "0.36.0",
}


def check(monkeypatch, **changes):
    installed = {**GOOD, **{name.replace("_", "-"): version for name, version in changes.items()}}

    def find(name):
        if installed.get(name) is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(versions.importlib.metadata, "version", find)
    return {finding.text: finding.level for finding in versions.check() if finding.level != "ok"}


def test_the_pinned_versions_are_right(monkeypatch):
    assert check(monkeypatch) == {}


def test_another_distribution_of_tensorflow_will_do(monkeypatch):
    assert check(monkeypatch, tensorflow=None, tensorflow_cpu="2.15.1") == {}


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"tensorflow": "2.16.1"}, "tensorflow is 2.16.1, expected 2.15.*; install the pinned versions"),
        ({"tensorflow": None}, "tensorflow is not installed, expected 2.15.*; install the pinned versions"),
        ({"numpy": "2.1.0"}, "numpy is 2.1.0, expected 1.*; install the pinned versions"),
        ({"tensorflow_estimator": None}, "tensorflow-estimator is not installed, expected 2.15.*"),
    ],
)
def test_what_does_not_fit_is_a_problem(monkeypatch, changes, said):
    ((text, level),) = check(monkeypatch, **changes).items()
    assert level == "problem" and text.startswith(said) and "pip install -r requirements.txt" in text


def test_what_only_some_need_is_a_warning(monkeypatch):
    assert list(check(monkeypatch, tensorflow_io=None).values()) == ["warning"]


@pytest.mark.parametrize(
    "version, level", [((3, 8, 18), "problem"), ((3, 9, 1), "ok"), ((3, 12, 0), "problem")]
)
def test_python(monkeypatch, version, level):
    monkeypatch.setattr(versions.sys, "version_info", version)
    finding = next(versions.check())
    assert finding.level == level and ".".join(map(str, version)) in finding.text
    assert (level == "ok") != ("expected 3.9, 3.10 or 3.11; create a new environment" in finding.text)
