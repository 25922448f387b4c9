"""Tests evaluate --format, which recognises recordings with the runtime, and its error messages."""

import re
import types

import numpy as np
import pytest
import soundfile

from estimator_asr import evaluate
from estimator_asr.evaluation import recognised_split, recorded
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import recordings

INFO = types.SimpleNamespace(max_seconds=2, frontend=frontend.FrontendConfig(sample_rate=8000))


class Model:
    """A fake model that outputs the number of samples as pinyin."""

    def recognise(self, waveform):
        return {"pinyin": str(len(waveform)), "status": "ok"}


@pytest.fixture
def recogniser(tmp_path) -> recorded.RecordedRecogniser:
    path = str(tmp_path / "a.wav")
    soundfile.write(path, np.full(16000, 0.1), 16000)
    by_id = {
        "whole": recordings.Recording(path),
        "part": recordings.Recording(path, start_seconds=0.25, seconds=0.5),
        "copy": recordings.Recording(path, is_augmented=True),
        "gone": recordings.Recording(str(tmp_path / "b.wav")),
    }
    return recorded.RecordedRecogniser(Model(), by_id, INFO, None)


def test_a_recording_or_its_segment_is_read_at_the_models_sample_rate(recogniser):
    found = recogniser.run({"utterance_id": np.array([b"whole", b"part"])})
    assert found == {"pinyin": ["8000", "4000"], "status": ["ok", "ok"]}


@pytest.mark.parametrize(
    "name, reason",
    [
        ("other", "the data do not list its file"),
        ("copy", "the utterance is an augmented copy"),
        ("gone", ".*b.wav: audio file does not exist"),
    ],
)
def test_a_missing_recording_is_named_with_the_reason(recogniser, name, reason):
    said = rf"evaluate: {name}: --format needs the recording, which cannot be read \({reason}\); move "
    with pytest.raises(errors.UserError, match=said):
        recogniser.run({"utterance_id": np.array([name.encode()])})


@pytest.mark.parametrize(
    "content, said",
    [
        (None, "onnx does not exist; export the model with --format=onnx$"),
        ("{", "onnx/model.json is not valid JSON; copy the"),
    ],
)
def test_a_missing_or_damaged_format_is_refused(tmp_path, content, said):
    if content:
        (tmp_path / "onnx").mkdir()
        (tmp_path / "onnx" / "model.json").write_text(content, encoding="utf-8")
    with pytest.raises(errors.UserError, match=f"^evaluate: {re.escape(str(tmp_path))}/{said}"):
        recorded.replace_recogniser(types.SimpleNamespace(), None, str(tmp_path), "onnx")


@pytest.mark.parametrize("flags", [{"model_dir": "AM"}, {"saved_model": "EXPORT", "streaming": True}])
def test_format_is_refused_with_a_model_dir_or_streaming(flags):
    said = "evaluate: --format=onnx works only with --saved_model and without --streaming; omit"
    with pytest.raises(errors.UserError, match=said):
        evaluate.EvaluateConfig(data_dir=("DATA",), output_dir="REPORT", format="onnx", **flags)


def test_the_model_of_a_format_replaces_the_recogniser(monkeypatch, tmp_path):
    """The new model gets the hotwords, and the facts name the format; the language model does not change."""
    (tmp_path / "onnx").mkdir()
    monkeypatch.setattr(recorded.runtime_model, "load", lambda directory: directory)
    monkeypatch.setattr(recorded.runtime, "Recogniser", lambda *arguments: arguments)
    monkeypatch.setattr(recorded.export_info, "load", lambda version_dir: INFO)
    whole, facts = types.SimpleNamespace(session="session"), {"model": "EXPORT/1"}
    subject = recognised_split.EvaluatedModel(whole, None, None, {}, facts, None, "language", ("你好",))
    found = recorded.replace_recogniser(subject, types.SimpleNamespace(shards=[]), str(tmp_path), "onnx")
    assert found.facts == {"model": f"{tmp_path}/onnx"} and found.language == "language"
    assert found.recogniser.model == (f"{tmp_path}/onnx", ("你好",))
    assert found.recogniser.session == "session"
