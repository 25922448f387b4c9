from __future__ import annotations

from estimator_asr.diagnostics.doctor import libraries


def test_the_first_that_cannot_be_opened_is_named():
    there = {library.file for library in libraries.LIBRARIES} - {"libcusparse.so.12", "libcudnn.so.8"}
    opens = {file: object() for file in there}.get
    assert libraries.first_missing(opens) == ("libcusparse.so.12", "nvidia-cusparse-cu12")
    assert libraries.first_missing(lambda file: object()) is None


def test_a_library_is_opened_by_name_or_among_the_wheels(monkeypatch, tmp_path):
    assert libraries.open_library("libc.so.6") is not None
    assert libraries.open_library("libnothing.so.77") is None
    path = tmp_path / "nvidia" / "cudnn" / "lib" / "libnothing.so.77"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
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


def test_the_version_of_cudnn_is_read_from_its_number():
    class Cudnn:
        @staticmethod
        def cudnnGetVersion():
            return 8907

    assert libraries.cudnn_version(lambda file: Cudnn) == "8.9.7"
    assert libraries.cudnn_version(lambda file: None) == ""
