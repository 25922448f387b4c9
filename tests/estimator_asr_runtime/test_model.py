"""Model directories: what is missing, damaged or foreign is one sentence."""

from __future__ import annotations

import dataclasses
import io
import json
import os

import numpy as np
import pytest
import runtime_models

from estimator_asr_runtime import backends, errors, model, model_json, ngrams

AGAIN = "copy the export again, or export again"
TOKENS = "".join(f"{token}\n" for token in runtime_models.TOKENS).encode()
FILES = {"acoustic.onnx": b"graph", "tokens.txt": TOKENS}


@pytest.fixture(autouse=True)
def graphs(monkeypatch):
    """Graphs by the names of their files, instead of those of ONNX Runtime."""
    log_probs = runtime_models.make_log_probs([4, 4])
    made = {
        "acoustic.onnx": runtime_models.Graph(log_probs=log_probs, encoding=np.zeros([1, 2, 3])),
        "decoder.onnx": runtime_models.Graph(scores=np.zeros(1)),
        "language.onnx": runtime_models.LanguageGraph(),
    }
    monkeypatch.setitem(backends.BACKENDS, "onnx", lambda path, _: made[os.path.basename(path)])
    return made


def refuse(directory) -> str:
    with pytest.raises(errors.UserError) as raised:
        model.load(str(directory))
    return str(raised.value).replace(f"{directory}/", "")


def test_a_model_with_all_parts(tmp_path):
    arrays = ngrams.BackOffArrays(1, *np.zeros([3, 1]), *np.zeros([2, 4]), *np.zeros([3, 1]), 0)
    content = io.BytesIO()
    np.savez(content, **arrays._asdict())
    names = ("decoder.onnx", "language.onnx", "acoustic_ngram.npz")
    lists = {"characters.txt": "<unk>\n你\n".encode(), "language_tokens.txt": TOKENS}
    files = {**FILES, **dict.fromkeys(names[:2], b"graph"), names[2]: content.getvalue(), **lists}
    decode = {**runtime_models.DECODE, "attention_weight": 0.5, "ngram_weight": 0.1}
    path = runtime_models.write(tmp_path, files, acoustic=decode, language=runtime_models.DECODE)
    loaded = model.load(path)
    assert loaded.tokens == runtime_models.TOKENS
    assert loaded.characters == ("<unk>", "你")
    assert loaded.language_ids == {"<unk>": 0, "ni3": 1, "hao3": 2, "A": 3}
    assert loaded.acoustic_ngram.context_length == 0
    assert loaded.language_ngram is None
    assert loaded.settings.acoustic == model_json.Decode(**decode)
    assert None not in (loaded.decoder, loaded.language)


def test_no_model(tmp_path):
    expected = "expected that of an export as ONNX or LiteRT; pass its directory"
    assert refuse(tmp_path) == f"model.json: No such file or directory, {expected}"


@pytest.mark.parametrize("content", [b"{", b"\xff"])
def test_model_json_is_not_json(tmp_path, content):
    (tmp_path / "model.json").write_bytes(content)
    assert refuse(tmp_path) == f"model.json: is not JSON; {AGAIN}"


@pytest.mark.parametrize(("content", "got"), [("[]", None), ('{"layout": 2}', 2)])
def test_another_layout(tmp_path, content, got):
    (tmp_path / "model.json").write_text(content)
    expected = "install the release of estimator-asr-runtime that belongs to the export"
    assert refuse(tmp_path) == f"model.json: layout is {got}, expected 1; {expected}"


def test_model_json_was_changed(tmp_path):
    runtime_models.write(tmp_path, FILES)
    values = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**values, "sample_rate": 8000}))
    assert refuse(tmp_path) == f"model.json: was changed, expected what the export wrote; {AGAIN}"


def test_a_field_is_missing_or_wrong(tmp_path):
    runtime_models.write(tmp_path, FILES, acoustic={"decoding": "beam"})
    assert refuse(tmp_path) == "model.json: 'beam_width' is missing or wrong; export again"
    runtime_models.write(tmp_path, FILES, format="tf")
    assert refuse(tmp_path) == f"model.json: format is tf, expected onnx or litert; {AGAIN}"


def test_files_are_compared_with_their_digests(tmp_path):
    runtime_models.write(tmp_path, FILES)
    (tmp_path / "acoustic.onnx").write_bytes(b"grap")
    assert refuse(tmp_path) == f"acoustic.onnx: has 4 bytes, expected 5; {AGAIN}"
    (tmp_path / "acoustic.onnx").write_bytes(b"grapH")
    expected = f"is damaged, its SHA-256 is not that of model.json; {AGAIN}"
    assert refuse(tmp_path) == f"acoustic.onnx: {expected}"
    (tmp_path / "acoustic.onnx").unlink()
    expected = f"No such file or directory, expected a file of the export; {AGAIN}"
    assert refuse(tmp_path) == f"acoustic.onnx: {expected}"


def test_a_file_is_not_listed(tmp_path):
    runtime_models.write(tmp_path, {"tokens.txt": TOKENS})
    assert refuse(tmp_path) == "acoustic.onnx: is not among the files of model.json; export again"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"ni3\n", "first line is 'ni3', expected <unk>; export again"),
        (b"<unk>\n\xff\n", "byte 6 is not UTF-8; export again"),
    ],
)
def test_a_foreign_vocabulary(tmp_path, content, expected):
    runtime_models.write(tmp_path, {**FILES, "tokens.txt": content})
    assert refuse(tmp_path) == f"tokens.txt: {expected}"


def test_a_vocabulary_of_another_size_than_the_graph(tmp_path):
    runtime_models.write(tmp_path, {**FILES, "tokens.txt": b"<unk>\nni3\n"})
    expected = "has the shape [1, 2, 5], expected [1, any, 3]; export again"
    assert refuse(tmp_path) == f"{tmp_path}: output log_probs of the acoustic graph {expected}"


def test_a_graph_without_an_output(tmp_path, graphs):
    graphs["acoustic.onnx"] = runtime_models.Graph(logits=np.zeros([1, 1, 5]))
    runtime_models.write(tmp_path, FILES)
    expected = "is missing, expected it beside logits; export again"
    assert refuse(tmp_path) == f"{tmp_path}: output log_probs of the acoustic graph {expected}"


def test_a_foreign_ngram_model(tmp_path):
    decode = {**runtime_models.DECODE, "ngram_weight": 0.1}
    runtime_models.write(tmp_path, {**FILES, "acoustic_ngram.npz": b"PK"}, acoustic=decode)
    assert refuse(tmp_path) == "acoustic_ngram.npz: is no n-gram model of an export; export again"
    arrays = ngrams.BackOffArrays(1, *np.zeros([3, 1]), *np.zeros([2, 5]), *np.zeros([3, 1]), 0)
    np.savez(tmp_path / "other.npz", **arrays._asdict())
    files = {**FILES, "acoustic_ngram.npz": (tmp_path / "other.npz").read_bytes()}
    runtime_models.write(tmp_path, files, acoustic=decode)
    expected = "has 5 tokens, expected the 4 of the model; export again"
    assert refuse(tmp_path) == f"acoustic_ngram.npz: {expected}"


def test_fields_are_those_of_the_trainer():
    pytest.importorskip("tensorflow")
    from estimator_asr.experiment import config

    ours = {field.name: field.type for field in dataclasses.fields(model_json.Decode)}
    theirs = {field.name: field.type for field in dataclasses.fields(config.DecodeConfig)}
    assert ours == {name: kind for name, kind in theirs.items() if "whisper" not in name}
