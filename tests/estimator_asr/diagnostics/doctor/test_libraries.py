from __future__ import annotations

import pytest

from estimator_asr.diagnostics.doctor import libraries


class Cudnn:
    def __init__(self, number):
        self.cudnnGetVersion = lambda: number


class Driver:
    """libcuda, which writes its version to where a pointer points."""

    def __init__(self, number, error=0):
        self._number, self._error = number, error

    def cuDriverGetVersion(self, pointer):
        pointer._obj.value = self._number
        return self._error


def install(monkeypatch, opened):
    monkeypatch.setattr(libraries, "open_library", opened.get)


def everything(cudnn):
    files = dict.fromkeys(libraries.wanted(cudnn), "loaded")
    return {**files, "libcuda.so.1": Driver(12040)}


@pytest.mark.parametrize(
    "major, number, version", [("8", 8907, (8, 9, 7)), ("9", 90300, (9, 3, 0)), ("9", 91401, (9, 14, 1))]
)
def test_all_libraries_of_a_release(monkeypatch, major, number, version):
    install(monkeypatch, {**everything(major), f"libcudnn.so.{major}": Cudnn(number)})
    assert libraries.find(major) == libraries.Libraries(missing=(), cudnn=version, driver=(12, 4))


def test_another_cudnn_is_missing_and_its_version_is_told(monkeypatch):
    opened = {**everything("8"), "libcudnn.so.9": Cudnn(90300)}
    del opened["libcudnn.so.8"], opened["libcufft.so.11"]
    install(monkeypatch, opened)
    assert libraries.find("8") == libraries.Libraries(
        missing=("libcufft.so.11", "libcudnn.so.8"), cudnn=(9, 3, 0), driver=(12, 4)
    )


def test_a_machine_without_cuda_misses_all(monkeypatch):
    install(monkeypatch, {})
    assert libraries.find("9") == libraries.Libraries(libraries.wanted("9"), cudnn=None, driver=None)
    assert len(libraries.wanted("9")) == 8


def test_a_driver_that_cannot_say_its_version_has_none():
    assert libraries.driver_version(Driver(0)) is None
    assert libraries.driver_version(Driver(12040, error=3)) is None


def test_wheels_of_files_are_named_once():
    files = ("libcublas.so.12", "libcublasLt.so.12", "libcudnn.so.9")
    assert libraries.wheels(files) == ["nvidia-cublas-cu12", "nvidia-cudnn-cu12"]


def test_a_library_is_opened_by_name_or_among_the_wheels(monkeypatch, tmp_path):
    assert libraries.open_library("libc.so.6") is not None
    assert libraries.open_library("libnothing.so.77") is None
    path = tmp_path / "nvidia" / "cudnn" / "lib" / "libnothing.so.77"
    path.parent.mkdir(parents=True)
    path.touch()
    opened = []

    def load(name):
        opened.append(name)
        if name != str(path):
            raise OSError(name)
        return "loaded"

    monkeypatch.setattr(libraries.sysconfig, "get_path", lambda kind: str(tmp_path))
    monkeypatch.setattr(libraries.ctypes, "CDLL", load)
    assert libraries.open_library("libnothing.so.77") == "loaded"
    assert opened == ["libnothing.so.77", str(path)]
