"""Exports in other formats, which estimator_asr_runtime runs, are compared with their SavedModel."""

import dataclasses
import os
import re
import subprocess
import sys

import numpy as np
import paths
import pytest
import small_models
import soundfile
import tensorflow as tf
import tiny_models
from format_exports import FORMATS, UTTERANCES, WAVEFORMS, export, make_ngram, open_model
from onnx import TensorProto, checker, load_model_from_string

from estimator_asr.exporting.formats import agreement, bundle, onnx, parts, rewriting
from estimator_asr.exporting.saved_model import export_info
from estimator_asr_runtime import backends
from estimator_asr_runtime import model as runtime_model
from estimator_asr_runtime import recogniser as runtime
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The directories of acoustic models of several kinds, of a language model and of a punctuation model."""
    path = tmp_path_factory.mktemp("formats")
    tiny_models.make_acoustic_model(str(path / "plain"))
    tiny_models.make_acoustic_model(str(path / "streaming"), chunk_frames=16)
    with pytest.MonkeyPatch.context() as patched:  # makes matrices that are large enough to be quantised
        wide = dataclasses.replace(small_models.ACOUSTIC, encoder_units=64, encoder_inner_units=128)
        patched.setattr(small_models, "ACOUSTIC", wide)
        tiny_models.make_acoustic_model(str(path / "wide"))
        patched.setattr(tiny_models, "FRONTEND", frontend.FrontendConfig(frontend="log_spectrogram"))
        tiny_models.make_acoustic_model(str(path / "spectrogram"))
    for encoder in ("transformer", "cnn"):
        tiny_models.make_acoustic_model(str(path / encoder), encoder=encoder)
    for family in ("whisper", "hubert"):
        tiny_models.make_pretrained_model(str(path / family), family)
    tiny_models.make_language_model(str(path / "language"), tiny_models.OTHER_TOKENS)
    tiny_models.make_punctuation_model(str(path / "punctuation"))
    return path


@pytest.mark.parametrize(
    "name", ["plain", "streaming", "transformer", "cnn", "spectrogram", "whisper", "hubert"]
)
def test_formats_recognise_like_the_saved_model(directory, tmp_path, name):
    version_dir = export(tmp_path, FORMATS, open_model(directory / name), open_model(directory / "language"))
    info = export_info.load(version_dir)
    for format in FORMATS:
        compared = info.formats[format]
        assert compared["num_recordings"] == 4 and compared["num_ties"] == 0
        assert 0 <= compared["largest_difference"] <= agreement.TOLERANCE
        assert f"{format}/model.json" in info.files


def test_search_with_all_settings_that_tune_may_add(directory, tmp_path):
    weights = {"ngram_weight": 0.7, "token_bonus": 0.5, "attention_weight": 0.4, "language_weight": 0.3}
    calibration = {"confidence_scale": 0.8, "confidence_offset": 0.2}
    acoustic = open_model(directory / "plain", make_ngram(tiny_models.TOKENS), **weights, **calibration)
    ngram = make_ngram(tiny_models.CHARACTERS)
    export(tmp_path, FORMATS, acoustic, open_model(directory / "language", ngram, ngram_weight=0.5))


ONLY_RUNTIME = """
import sys
sys.path.insert(0, ".")
{}
loaded = {{name.split(".")[0] for name in sys.modules}}
assert not loaded & {{"estimator_asr", "tensorflow", "tfrecord_builder"}}
"""


@pytest.mark.parametrize("place", [0, 1])
def test_the_example_programs_in_the_docs_transcribe(directory, tmp_path, place):
    page = (paths.ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[place]
    models = open_model(directory / "plain"), open_model(directory / "language")
    (tmp_path / "EXPORT").mkdir()
    (tmp_path / "EXPORT" / "VERSION").symlink_to(export(tmp_path, ["onnx"], *models))
    (tmp_path / "estimator_asr_runtime").symlink_to(paths.ROOT / "estimator_asr_runtime")
    speech, rate = str(tmp_path / "speech.wav"), tiny_models.FRONTEND.sample_rate
    soundfile.write(speech, WAVEFORMS[2], rate, subtype="FLOAT")
    command = [sys.executable, "-I", "-c", ONLY_RUNTIME.format(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    model = runtime_model.load(str(tmp_path / "EXPORT" / "VERSION" / "onnx"), num_threads=1)  # as in the docs
    expected = runtime.Recogniser(model).recognise_file(speech)
    if place:
        assert done.stdout == expected["greedy_pinyin"] + "\n" != "\n"
        return
    first, *rows = done.stdout.splitlines()
    assert first.split() == ["ok", expected["transcript"], str(expected["confidence"])]
    assert [row.split() for row in rows] == [
        [str(value) for value in each.values()] for each in expected["characters"]
    ]


def test_greedy_decoding_needs_no_ngram_model(directory, tmp_path):
    ngram = make_ngram(tiny_models.TOKENS)
    weights = {"attention_weight": 0.5, "ngram_weight": 0.5}
    acoustic = open_model(directory / "plain", ngram, decoding="greedy", **weights)
    names = os.listdir(os.path.join(export(tmp_path, ["onnx"], acoustic), "onnx"))
    assert sorted(names) == ["acoustic.onnx", "decoder.onnx", "model.json", "tokens.txt"]


@pytest.mark.parametrize("weights, most", [("float16", 0.05), ("int8", 1.0)])
def test_rounded_weights_are_smaller_and_change_little(directory, tmp_path, monkeypatch, weights, most):
    monkeypatch.setattr(agreement, "MOST_CHANGED", 1.0)  # rounding random weights may change every character
    acoustic, size = open_model(directory / "wide"), {}
    exact = export(tmp_path / "exact", FORMATS, acoustic)
    rounded = export(tmp_path / "rounded", FORMATS, acoustic, weights=weights)
    for name, file in (("litert", "acoustic.tflite"), ("onnx", "acoustic.onnx")):
        models = [runtime_model.load(os.path.join(path, name)) for path in (exact, rounded)]
        log_probs = [each.acoustic.run({"waveform": WAVEFORMS[3][None]})["log_probs"] for each in models]
        assert 0 < np.max(np.abs(log_probs[0] - log_probs[1])) < most
        compared = export_info.load(rounded).formats[name]
        assert compared["num_changed"] >= 0 and compared["largest_difference"] is None
        size[name] = [os.path.getsize(os.path.join(path, name, file)) for path in (exact, rounded)]
    assert all(after < before for before, after in size.values())


def test_int8_weights_of_onnx_are_unsigned():
    """Products with signed weights overflow, but only on x86 CPUs without VNNI."""
    with tf.Graph().as_default() as graph:
        waveform = tf.compat.v1.placeholder(tf.float32, [None, 64], "waveform")
        tf.identity(waveform @ np.random.default_rng(0).normal(size=[64, 64]).astype(np.float32), "log_probs")
    part = parts.Part("product", graph.as_graph_def(), ("waveform",), ("log_probs",))
    model = load_model_from_string(bundle.CONVERTERS["onnx"].convert(part, "int8"))
    (product,) = (node for node in model.graph.node if node.op_type == "MatMulInteger")
    types = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert types[product.input[1]] == TensorProto.UINT8


@pytest.mark.parametrize("kind", ["log_mel", "log_spectrogram", "whisper_log_mel"])
def test_rounded_weights_do_not_change_the_features(tmp_path, kind):
    """With 8-bit weights, the features would lose the quiet noise beneath the loud tone."""
    rng = np.random.default_rng(0)
    waveform = 0.3 * np.sin(np.arange(16000) / 5) + rng.normal(0, 1e-4, 16000)
    with tf.Graph().as_default() as graph:
        placeholder = tf.compat.v1.placeholder(tf.float32, [1, None], "waveform")
        config = frontend.FrontendConfig(frontend=kind)
        tf.identity(frontend.extract(placeholder, config, tf.shape(placeholder)[1:]), "log_probs")
    part = parts.Part("features", rewriting.rewrite(graph.as_graph_def()), ("waveform",), ("log_probs",))
    for name in FORMATS:
        found = {}
        for weights in ("float32", "int8"):
            path = tmp_path / f"{weights}_{name}"
            path.write_bytes(bundle.CONVERTERS[name].convert(part, weights))
            run = backends.BACKENDS[name].graph(str(path), 1).run
            found[weights] = run({"waveform": np.float32(waveform)[None]})["log_probs"]
        np.testing.assert_allclose(found["int8"], found["float32"], atol=1e-5)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            expected = session.run(
                frontend.extract(tf.constant(waveform[None], tf.float32), config, tf.constant([16000]))
            )
        np.testing.assert_allclose(found["float32"], expected, atol=0.01)


def test_onnx_has_only_standard_operators_and_no_control_flow(directory):
    acoustic = open_model(directory / "plain", attention_weight=0.5)
    for part in parts.build(
        acoustic, open_model(directory / "language"), open_model(directory / "punctuation")
    ):
        model = load_model_from_string(onnx.convert(part, "float32"))
        checker.check_model(model, full_check=True)
        assert {node.domain for node in model.graph.node} <= {"", "ai.onnx"}
        assert not {node.op_type for node in model.graph.node} & {"Loop", "If", "Scan"}
        assert [each.version for each in model.opset_import if not each.domain] == [17]


def test_messages_of_the_libraries_are_hidden(directory, tmp_path, capfd):
    export(tmp_path, FORMATS, open_model(directory / "plain"))
    captured = capfd.readouterr()
    for chatter in ("folding node", "Using opset", "experimental converter", "non-converted", "XNNPACK"):
        assert chatter not in captured.out + captured.err


def test_messages_of_a_converter_that_fails_are_shown(directory, tmp_path, capfd, monkeypatch):
    def fail(part, weights):
        os.write(2, b"error: of C++\n")
        raise ValueError("no such operation")

    monkeypatch.setattr(bundle.CONVERTERS["litert"], "convert", fail)
    message = r"converted to litert \(no such operation\); leave litert out"
    with pytest.raises(errors.UserError, match=message):
        export(tmp_path, ["litert"], open_model(directory / "plain"))
    assert capfd.readouterr() == ("", "error: of C++\n")


def test_a_format_that_disagrees_is_not_written(directory, tmp_path, monkeypatch):
    n_best = [{"transcript": "别的", "score": -1.0}]
    other = {"transcript": "别的", "status": "ok", "n_best": n_best, "characters": []}
    monkeypatch.setattr(runtime.Recogniser, "recognise", lambda self, waveform: other)
    message = "^export: utterance u0 in onnx: transcript is '别的', expected "
    with pytest.raises(errors.UserError, match=message):
        export(tmp_path, ["onnx"], open_model(directory / "plain"), open_model(directory / "language"))
    assert os.listdir(tmp_path / "export") == []


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("num_changed", "4 of 100 characters (9 recordings)"),
        ("num_changed_marks", "0 of 100 characters (9 recordings) and in the marks after 4 characters"),
    ],
)
def test_too_many_changes_are_refused(name, changed):
    compared = agreement.Agreement("onnx", "int8", num_recordings=9, num_characters=100, **{name: 4})
    with pytest.raises(errors.UserError) as refused:
        compared.check_changes()
    assert str(refused.value) == (
        f"export: int8 onnx differs from the float32 SavedModel in {changed}; at most 3 may differ. Nothing "
        "was exported. Pass other --weights, or train the model further."
    )
    dataclasses.replace(compared, **{name: 3}).check_changes()


def test_a_graph_with_unexpected_outputs_is_refused(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(backends.OnnxGraph, "run", lambda *_: {"logits": np.zeros([1, 1, 5])})
    problem = r"the outputs of onnx do not match the SavedModel's \(KeyError: 'log_probs'\)"
    with pytest.raises(errors.UserError, match=rf"^export: {problem}\. Nothing was "):
        export(tmp_path, ["onnx"], open_model(directory / "plain"))
    assert os.listdir(tmp_path / "export") == []


def test_unsupported_models_and_missing_recordings_are_refused_before_anything_is_written(directory):
    acoustic = open_model(directory / "plain")
    message = "uses Whisper's decoder, .* pass --nowhisper_decoder"
    with pytest.raises(errors.UserError, match=message):
        bundle.check(["litert"], open_model(directory / "plain", whisper_weight=0.5), UTTERANCES)
    with pytest.raises(errors.UserError, match="none of the split's recordings was found.*--format=litert"):
        bundle.check(["litert"], acoustic, [each._replace(waveform=None) for each in UTTERANCES])
    bundle.check([], acoustic, [])
