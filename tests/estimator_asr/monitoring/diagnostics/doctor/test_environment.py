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
# Some of the requirements in the METADATA of both TensorFlow wheels, keyed by version.
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
    """A function that returns the findings for a Python version and installed packages."""

    def run(python, installed):
        def find(name):
            if installed.get(name) is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return installed[name]

        monkeypatch.setattr(environment.sys, "version_info", python)
        monkeypatch.setattr(importlib.metadata, "version", find)
        monkeypatch.setattr(importlib.metadata, "requires", lambda name: REQUIRED.get(installed[name], []))
        return [tuple(finding) for finding in environment.check_versions()]

    return run


def complaints(found):
    return [(level, text) for level, text in found if level != "ok"]


@pytest.mark.parametrize(
    "python, installed, names",
    [
        ((3, 11, 7), OLD, "tensorflow numpy keras tensorboard tensorflow-estimator tensorflow-io"),
        ((3, 12, 1), NEW, "tensorflow numpy keras tensorflow-estimator tensorboard"),
    ],
)
def test_the_pinned_versions_of_both_releases_are_right(check, python, installed, names):
    version = ".".join(map(str, python))
    texts = [f"python {version}", *(f"{name} {installed[name]}" for name in names.split())]
    assert check(python, installed) == [("ok", text) for text in texts]


def test_the_packages_of_this_environment_fit():
    assert [finding for finding in environment.check_versions() if finding.level == "problem"] == []


@pytest.mark.parametrize(
    "python, changes",
    [
        ((3, 11, 7), {"tensorflow": None, "tensorflow-cpu": "2.15.1"}),
        ((3, 11, 7), {"tensorflow": None, "tensorflow-intel": "2.15.1"}),
        ((3, 11, 7), {"tensorflow": None, "tensorflow-macos": "2.15.1"}),
        ((3, 12, 1), {"numpy": "1.26.4"}),  # fits the newer release too
        ((3, 12, 1), {"keras": "3.13.0rc1"}),
    ],
)
def test_other_tested_packages_are_ok(check, python, changes):
    found = check(python, {**(OLD if python < (3, 12) else NEW), **changes})
    assert complaints(found) == []
    assert all(("ok", f"{name} {version}") in found for name, version in changes.items() if version)


@pytest.mark.parametrize(
    "name, version",
    [
        ("tensorflow-rocm", "2.21.0"),
        ("tf-nightly", "2.21.0.dev20250722"),
        ("tf-nightly-cpu", "2.21.0.dev1"),
    ],
)
def test_an_untested_package_is_a_warning(check, name, version):
    found = complaints(check((3, 12, 1), {**NEW, "tensorflow": None, name: version}))
    text = f"{name} {version} has not been tested with these programs; {INSTALL}"
    assert found == [("warning", text)]


def test_a_missing_optional_package_is_a_warning(check):
    found = complaints(check((3, 11, 7), {**OLD, "tensorflow-io": None}))
    assert found == [("warning", f"tensorflow-io ==0.36.* is required but not installed; {INSTALL}")]


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
    fix = "create an environment with one of these versions"
    releases = "2.15 (Python 3.10 to 3.11) or 2.21 (Python 3.12 to 3.13)"
    assert complaints(check(python, {**NEW, "tensorflow": None})) == [
        ("problem", f"python is {version}, expected 3.10 to 3.13; {fix}"),
        ("problem", f"tensorflow {releases} is required but not installed; {INSTALL}"),
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
