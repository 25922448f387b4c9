import pathlib
import subprocess
import sys
import zipfile

import paths
import program_flags
import pytest
from setuptools import build_meta

from estimator_asr import __main__ as trainer
from tfrecord_builder import __main__ as builder
from tfrecord_builder.program import console


def test_every_program_of_the_packages_is_listed():
    # Only the demo runs the program estimator_asr.demo.sentences.
    found = {name for name in program_flags.programs() if name != "estimator_asr.demo.sentences"}
    programs = {f"tfrecord_builder.{name}" for name in builder.PROGRAMS}
    assert programs | {f"estimator_asr.{name}" for name in trainer.PROGRAMS} == found


def run(package, *words):
    command = [sys.executable, "-m", package, *words]
    return subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)


def test_a_program_runs_with_its_flags():
    done = run("tfrecord_builder", "verify", "--data_dir=/nowhere")
    assert done.returncode == 1 and done.stdout.startswith("/nowhere: ")


def test_help_lists_the_programs_with_their_first_lines(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tfrecord-builder", "--help"])
    with pytest.raises(SystemExit) as end:
        builder.main()
    assert end.value.code == 0
    first, _, *lines = capsys.readouterr().out.splitlines()
    usage = "tfrecord-builder PROGRAM [--flags]; tfrecord-builder PROGRAM --help lists its flags"
    assert first == f"usage: {usage}"
    assert "  build            Builds TFRecords from a corpus." in lines


def test_an_unknown_program_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["estimator-asr", "tea"])
    message = "error: there is no program tea; choose a program from the list above"
    with pytest.raises(SystemExit, match=message):
        trainer.main()
    assert "  train " in capsys.readouterr().err


def test_the_installation_includes_flag_files_and_templates(tmp_path, monkeypatch):
    packages = ("tfrecord_builder", "estimator_asr", "estimator_asr_runtime")
    for name in ("pyproject.toml", "README.md", "LICENSE", "flags", *packages):
        (tmp_path / name).symlink_to(paths.ROOT / name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wheel").mkdir()
    wheel = zipfile.ZipFile(tmp_path / "wheel" / build_meta.build_wheel(str(tmp_path / "wheel")))
    names = {pathlib.PurePath(name) for name in wheel.namelist()}
    for path in paths.find_files("flags/*/*.flags"):
        installed = f"data/share/estimator_asr/{path.relative_to(paths.ROOT)}"
        assert any(name.match(installed) for name in names), path
    pages = (f"{package}/**/*.{kind}" for package in packages for kind in ("html", "js", "css"))
    found = {path.relative_to(paths.ROOT) for path in paths.find_files(*pages)}
    assert len(found) > 40 and found <= names
    entry_points = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert b"tfrecord-builder = tfrecord_builder.__main__:main" in wheel.read(entry_points)


def test_a_flag_file_missing_here_is_read_from_the_installation(monkeypatch, tmp_path):
    class Installed(pathlib.PurePosixPath):
        def locate(self):
            return f"/usr/{self}"

    found = [Installed("share/estimator_asr/flags/demo/build.flags")]
    monkeypatch.setattr(console.importlib.metadata, "files", lambda name: found)
    monkeypatch.setattr(console.runpy, "run_module", lambda name, **options: None)
    monkeypatch.chdir(tmp_path)
    argv = ["tfrecord-builder", "build", "--flagfile=flags/demo/build.flags", "--flagfile=mine.flags"]
    monkeypatch.setattr(sys, "argv", argv)
    builder.main()
    assert argv[1:] == ["--flagfile=/usr/share/estimator_asr/flags/demo/build.flags", "--flagfile=mine.flags"]
