from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import runtime_models
import soundfile

from estimator_asr_runtime import __main__, model


@pytest.fixture
def speech(tmp_path) -> str:
    soundfile.write(tmp_path / "a.wav", np.full(8000, 0.1), 16000)
    return str(tmp_path / "a.wav")


@pytest.fixture(autouse=True)
def loaded(monkeypatch):
    made = runtime_models.make_model(runtime_models.make_log_probs([1, 4, 2]))
    monkeypatch.setattr(model, "load", lambda directory, num_threads: made)


def test_one_transcript_per_line(speech, capsys):
    assert __main__.main(["--model=m", speech, speech]) == 0
    assert capsys.readouterr().out == "ni3 hao3\n" * 2


def test_one_object_per_file(speech, capsys):
    assert __main__.main(["--model=m", "--format=json", speech]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["transcript"], found["status"]) == (speech, "ni3 hao3", "ok")


def test_a_bad_file_is_a_sentence_and_the_others_go_on(speech, tmp_path, capsys):
    soundfile.write(tmp_path / "b.wav", np.zeros(8000), 16000)
    bad = [str(tmp_path / name) for name in ("b.wav", "none.wav")]
    assert __main__.main(["--model=m", *bad, speech]) == 1
    printed = capsys.readouterr()
    assert printed.out == "ni3 hao3\n"
    silent = "audio is silent, expected a peak of at least 0.0005 of full scale; its transcript is empty"
    missing = "No such file or directory; pass the path of an audio file"
    assert printed.err == f"{bad[0]}: {silent}\n{bad[1]}: {missing}\n"


def test_a_model_that_cannot_be_loaded(speech, monkeypatch, capsys, tmp_path):
    monkeypatch.undo()
    assert __main__.main([f"--model={tmp_path}", speech]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path}/model.json: No such file or directory")


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["--help"])
    assert "python -m estimator_asr_runtime --model=DIR a.wav b.wav" in capsys.readouterr().out


def test_neither_tensorflow_nor_the_trainer_is_imported():
    code = "import sys, estimator_asr_runtime.__main__; print(*{each.split('.')[0] for each in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    others = {"tensorflow", "estimator_asr", "tfrecord_builder", "onnxruntime", "ai_edge_litert", "absl"}
    assert others.isdisjoint(done.stdout.split())
