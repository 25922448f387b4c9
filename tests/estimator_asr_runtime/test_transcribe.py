import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import runtime_models
import soundfile

from estimator_asr_runtime import backends, model, recogniser, transcribe


@pytest.fixture
def speech(tmp_path) -> str:
    soundfile.write(tmp_path / "a.wav", np.full(8000, 0.1), 16000)
    return str(tmp_path / "a.wav")


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    made = runtime_models.make_model(runtime_models.make_log_probs([1, 4, 2]))
    monkeypatch.setattr(model, "load", lambda directory, num_threads: made)


def test_one_line_or_one_object_per_file(speech, capsys):
    assert transcribe.main(["--model=m", speech, speech]) == 0
    assert capsys.readouterr().out == f"{speech}\tni3 hao3\tni3 hao3\n" * 2
    assert transcribe.main(["--model=m", "--format=json", speech]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["transcript"], found["status"]) == (speech, "ni3 hao3", "ok")


def test_the_written_text_is_shown(speech, capsys, monkeypatch):
    texts = {
        "transcript": "二十",
        "punctuated": "二十。",
        "written": "20。",
        "pinyin": "er4 shi2",
        "status": "ok",
    }
    monkeypatch.setattr(recogniser.Recogniser, "recognise_file", lambda self, path: dict(texts))
    assert transcribe.main(["--model=m", speech]) == 0
    assert capsys.readouterr().out == f"{speech}\t20。\ter4 shi2\n"
    assert transcribe.main(["--model=m", "--format=json", speech]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": speech, **texts}


def test_a_bad_file_has_an_error_and_the_others_are_transcribed(speech, tmp_path, capsys):
    soundfile.write(tmp_path / "b.wav", np.zeros(8000), 16000)
    bad = [str(tmp_path / name) for name in ("b.wav", "none.wav")]
    assert transcribe.main(["--model=m", *bad, speech]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{speech}\tni3 hao3\tni3 hao3\n"
    silent = "is silent (peak below 0.0005 of full scale), so its transcript is empty"
    missing = "No such file or directory; pass the path of an audio file"
    assert printed.err == f"{bad[0]} {silent}\n{bad[1]}: {missing}\n"


def test_a_recording_that_was_cut_off_has_a_transcript_and_a_warning(speech, capsys):
    with open(speech, "r+b") as file:
        file.seek(40)
        file.write(bytes(4))
    assert transcribe.main(["--model=m", speech]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{speech}\tni3 hao3\tni3 hao3\n"
    sentence = "was transcribed up to the end of the file, although its header says 0 samples"
    assert printed.err == f"{speech} {sentence}\n"
    assert transcribe.main(["--model=m", "--format=json", speech]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "unfinished"


def test_a_model_that_cannot_be_loaded(speech, monkeypatch, capsys, tmp_path):
    monkeypatch.undo()
    assert transcribe.main([f"--model={tmp_path}", speech]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path}/model.json: No such file or directory")


def test_the_model_may_be_a_format_a_version_or_an_export(tmp_path, monkeypatch):
    for name in ("9/onnx", "10/litert", "10/onnx", "11x/onnx"):
        (tmp_path / name).mkdir(parents=True)
    for missing, found in (("onnx", "litert"), ("litert", "onnx")):
        monkeypatch.setattr(backends, "is_installed", {missing: False, found: True}.get)
        assert model.find(str(tmp_path)) == str(tmp_path / "10" / found)
    assert model.find(str(tmp_path / "9")) == str(tmp_path / "9/onnx")
    (tmp_path / "9/onnx/model.json").touch()
    assert model.find(str(tmp_path / "9/onnx")) == str(tmp_path / "9/onnx")


def test_hotwords_are_read_from_a_file(speech, tmp_path, capsys):
    path = tmp_path / "words.txt"
    path.write_text("\ufeff# words\n号 hao3 3\n\n  # more\n", encoding="utf-8")
    made = []

    class Recogniser(recogniser.Recogniser):
        def __init__(self, loaded, words):
            made.append(words)
            super().__init__(loaded, words)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recogniser, "Recogniser", Recogniser)
        assert transcribe.main(["--model=m", f"--hotwords_file={path}", speech]) == 0
    assert made == [["号 hao3 3"]]
    path.write_bytes(b"\xff")
    os.mkfifo(tmp_path / "pipe")
    reasons = {path: "the file is not UTF-8", tmp_path / "none": "No such file or directory"}
    for name, reason in {**reasons, tmp_path / "pipe": "the path is not a regular file"}.items():
        assert transcribe.main(["--model=m", f"--hotwords_file={name}", speech]) == 1
        expected = f"{name}: {reason}; pass a text file with one hotword per line\n"
        assert capsys.readouterr().err == expected


def test_a_tilde_is_the_home_directory(speech, tmp_path, monkeypatch, capsys):
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert transcribe.main(["--model=~/none", speech]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path}/none")


def test_threads_are_not_negative(speech, capsys):
    with pytest.raises(SystemExit):
        transcribe.main(["--model=m", "--threads=-1", speech])
    assert "--threads: -1 is not an integer from 0 to 9999" in capsys.readouterr().err


def test_an_interrupt_has_no_traceback(speech, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "load", interrupt)
    assert transcribe.main(["--model=m", speech]) == 130


_PROGRAM = """
import sys
sys.path.insert(0, {support!r})
import runtime_models
from estimator_asr_runtime import model, transcribe
made = runtime_models.make_model(runtime_models.make_log_probs([1, 4, 2]), runtime_models.LanguageGraph())
model.load = lambda *_: made
sys.exit(transcribe.main(["--model=m", *sys.argv[1:]]))
"""


def run_program(command: str, *args) -> subprocess.CompletedProcess:
    """Runs a bash command, in which "$@" stands for the program and its arguments."""
    code = _PROGRAM.format(support=os.path.dirname(runtime_models.__file__))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    words = ["bash", "-c", command, "bash", sys.executable, "-c", code, *args]
    return subprocess.run(words, capture_output=True, env=environment)


def test_names_and_text_that_the_encoding_lacks_are_escaped(speech):
    path = os.fsencode(os.path.dirname(speech)) + b"/\xff.wav"
    shutil.copyfile(speech, path)
    done = run_program('"$@"', path)
    assert done.stderr == b""
    assert done.stdout.endswith(b"/\\udcff.wav\t\\u4f60\\u597d\tni3 hao3\n")


def test_a_name_with_tabs_and_line_breaks_stays_one_field(speech, tmp_path, capsys):
    path = shutil.copyfile(speech, tmp_path / "a\tb\nc\x1b.wav")
    assert transcribe.main(["--model=m", str(path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/a\\tb\\nc\\x1b.wav\tni3 hao3\tni3 hao3\n"


def test_a_reader_that_closes_the_pipe_causes_no_traceback(speech):
    done = run_program('{ "$@"; echo $? >&2; } | true', *[speech] * 3)
    assert done.stderr in (b"1\n", b"0\n")


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        transcribe.main(["--help"])
    assert "python -m estimator_asr_runtime.transcribe --model=EXPORT a.wav b.wav" in capsys.readouterr().out


def test_neither_tensorflow_nor_the_trainer_is_imported():
    code = "import sys, estimator_asr_runtime.transcribe; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others = {"tensorflow", "estimator_asr", "tfrecord_builder", "onnxruntime", "ai_edge_litert", "absl"}
    assert others.isdisjoint(done.stdout.split())


def test_the_package_runs_as_the_program():
    names = ("estimator_asr_runtime", "estimator_asr_runtime.transcribe")
    shown = [subprocess.run([sys.executable, "-m", name, "--help"], capture_output=True) for name in names]
    assert shown[0].stdout == shown[1].stdout != b""
