import importlib.metadata
import types

import pytest

from estimator_asr.monitoring.diagnostics.doctor import environment

OLD = {
    "tensorflow": "2.15.1",
    "tensorflow-estimator": "2.15.0",
    "keras": "2.15.0",
    "tensorboard": "2.15.2",
    "numpy": "1.26.4",
    "tensorflow-io": "0.36.0",
    "packaging": "25.0",
}
NEW = {
    "tensorflow": "2.21.0",
    "tensorflow-estimator": "2.15.0",
    "keras": "3.12.0",
    "tensorboard": "2.21.0",
    "numpy": "2.2.6",
    "packaging": "25.0",
}
# Some lines of the METADATA of both wheels.
REQUIRED = {
    "2.15.1": [
        "numpy (<2.0.0,>=1.23.5)",
        "packaging",
        "keras (<2.16,>=2.15.0)",
        "tensorboard (<2.16,>=2.15)",
        "tensorflow-estimator (<2.16,>=2.15.0)",
        'tensorflow-intel (==2.15.1) ; platform_system == "Windows"',
        "nvidia-cudnn-cu12 (==8.9.4.25) ; extra == 'and-cuda'",
    ],
    "2.21.0": ["numpy>=1.26.0", "packaging", "keras>=3.12.0", 'nvidia-nccl-cu12<3.0; extra == "and-cuda"'],
}
INSTALL = "install the pinned versions with pip install -r requirements.txt"


@pytest.fixture
def check(monkeypatch):
    """Returns the findings for a Python and the packages installed."""

    def run(python, installed):
        def find(name):
            if installed.get(name) is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return installed[name]

        monkeypatch.setattr(environment.sys, "version_info", python)
        monkeypatch.setattr(environment.importlib.metadata, "version", find)
        monkeypatch.setattr(
            environment.importlib.metadata, "requires", lambda name: REQUIRED.get(installed[name], [])
        )
        return [tuple(finding) for finding in environment.check_versions()]

    return run


def complaints(found):
    return [(level, text) for level, text in found if level != "ok"]


def test_the_pinned_versions_of_both_releases_are_right(check):
    assert check((3, 11, 7), OLD) == [
        ("ok", "python 3.11.7"),
        ("ok", "tensorflow 2.15.1"),
        ("ok", "numpy 1.26.4"),
        ("ok", "keras 2.15.0"),
        ("ok", "tensorboard 2.15.2"),
        ("ok", "tensorflow-estimator 2.15.0"),
        ("ok", "tensorflow-io 0.36.0"),
    ]
    assert check((3, 12, 1), NEW) == [
        ("ok", "python 3.12.1"),
        ("ok", "tensorflow 2.21.0"),
        ("ok", "numpy 2.2.6"),
        ("ok", "keras 3.12.0"),
        ("ok", "tensorflow-estimator 2.15.0"),
        ("ok", "tensorboard 2.21.0"),
    ]


def test_the_packages_of_this_environment_fit():
    assert [finding for finding in environment.check_versions() if finding.level == "problem"] == []


@pytest.mark.parametrize(
    "python, changes",
    [
        *(
            ((3, 11, 7), {"tensorflow": None, f"tensorflow-{name}": "2.15.1"})
            for name in ("cpu", "intel", "macos")
        ),
        ((3, 12, 1), {"numpy": "1.26.4"}),  # fits the newer release too
    ],
)
def test_other_tested_packages_are_ok(check, python, changes):
    found = check(python, {**(OLD if python < (3, 12) else NEW), **changes})
    assert complaints(found) == []
    assert all(("ok", f"{name} {version}") in found for name, version in changes.items() if version)


@pytest.mark.parametrize(
    "python, changes, text",
    [
        *(
            (
                (3, 12, 1),
                {"tensorflow": None, name: version},
                f"{name} {version} has not been tested with these programs",
            )
            for name, version in (
                ("tensorflow-rocm", "2.21.0"),
                ("tf-nightly", "2.21.0.dev20250722"),
                ("tf-nightly-cpu", "2.21.0.dev1"),
            )
        ),
        ((3, 11, 7), {"tensorflow-io": None}, "tensorflow-io ==0.36.* is required but not installed"),
    ],
)
def test_untested_and_missing_optional_packages_are_warnings(check, python, changes, text):
    found = complaints(check(python, {**(OLD if python < (3, 12) else NEW), **changes}))
    assert found == [("warning", f"{text}; {INSTALL}")]


@pytest.mark.parametrize(
    "python, changes, text",
    [
        ((3, 11, 7), {"tensorflow": "2.16.1"}, "tensorflow is 2.16.1, expected 2.15.*"),
        ((3, 11, 7), {"tensorflow": None}, "tensorflow 2.15.* is required but not installed"),
        ((3, 12, 1), {"tensorflow": "2.22.0"}, "tensorflow is 2.22.0, expected 2.21.*"),
        ((3, 13, 0), {"tensorflow": None}, "tensorflow 2.21.* is required but not installed"),
        ((3, 11, 7), {"numpy": "2.1.0"}, "numpy is 2.1.0, expected <2.0.0,>=1.23.5"),
        ((3, 11, 7), {"numpy": None}, "numpy <2.0.0,>=1.23.5 is required but not installed"),
        ((3, 12, 1), {"numpy": "1.25.0"}, "numpy is 1.25.0, expected >=1.26.0"),
        ((3, 12, 1), {"keras": "2.15.0"}, "keras is 2.15.0, expected >=3.12.0"),
        ((3, 11, 7), {"packaging": None}, "packaging, which tensorflow requires, is not installed"),
        ((3, 12, 1), {"tensorboard": "2.15.2"}, "tensorboard is 2.15.2, expected ==2.21.*"),
        (
            (3, 12, 1),
            {"tensorflow-estimator": None},
            "tensorflow-estimator ==2.15.* is required but not installed",
        ),
    ],
)
def test_a_package_version_that_does_not_fit_is_a_problem(check, python, changes, text):
    found = check(python, {**(OLD if python < (3, 12) else NEW), **changes})
    assert complaints(found) == [("problem", f"{text}; {INSTALL}")]


@pytest.mark.parametrize("python", [(3, 9, 18), (3, 14, 0)])
def test_a_python_without_a_release_is_a_problem(check, python):
    version = ".".join(map(str, python))
    found = complaints(check(python, {**NEW, "tensorflow": None}))
    assert found == [
        (
            "problem",
            f"python is {version}, expected 3.10 to 3.13; create an environment with one of these versions",
        ),
        (
            "problem",
            "tensorflow 2.15 (Python 3.10 to 3.11) or 2.21 (Python 3.12 to 3.13) is required but not "
            f"installed; {INSTALL}",
        ),
    ]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("memory, disk, level", [(4.0, 2.0, "ok"), (3.9, 1.9, "warning")])
def test_too_little_memory_or_disk_is_a_warning(memory, disk, level, monkeypatch):
    monkeypatch.setattr(environment, "available_memory_gb", lambda: memory)
    monkeypatch.setattr(environment.shutil, "disk_usage", lambda path: types.SimpleNamespace(free=disk * 1e9))
    found = list(environment.check_machine("AM"))
    assert [finding.level for finding in found] == ["ok", level, level]
    assert f"{memory} GB of memory" in found[1].text
    assert f"{disk} GB of disk space free for AM" in found[2].text
    assert (memory < 4) == ("train with a smaller --batch_frames" in found[1].text)
    assert (disk < 2) == ("expected 2 GB or more; delete files or choose another disk" in found[2].text)


def test_memory_is_limited_by_the_machine_and_the_container(tmp_path):
    write(tmp_path / "proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    5000000 kB\n")
    assert environment.available_memory_gb(str(tmp_path)) == 5.12
    write(tmp_path / "sys/fs/cgroup/memory.max", "max\n")
    write(tmp_path / "sys/fs/cgroup/memory.current", "1000000000\n")
    assert environment.available_memory_gb(str(tmp_path)) == 5.12
    write(tmp_path / "sys/fs/cgroup/memory.max", "3000000000\n")
    assert environment.available_memory_gb(str(tmp_path)) == 2.0


def test_a_missing_directory_is_checked_on_its_parents_disk(tmp_path):
    texts = [finding.text for finding in environment.check_machine(str(tmp_path / "new" / "AM"))]
    assert texts[0].endswith("CPU cores") and int(texts[0].split()[0]) >= 1
    assert "AM" in texts[2]
