"""Model directories: each missing, damaged or foreign file has an error message."""

import dataclasses
import io
import json
import os

import numpy as np
import pytest
import runtime_models

from estimator_asr_runtime import backends, errors, model, model_json, ngrams

AGAIN = "copy the export again, or export the model again"
TOKENS = "".join(f"{token}\n" for token in runtime_models.TOKENS).encode()
FILES = {"acoustic.onnx": b"graph", "tokens.txt": TOKENS}


@pytest.fixture(autouse=True)
def graphs(monkeypatch):
    """Replaces the graphs with the names of their files."""
    backend = backends.BACKENDS["onnx"]._replace(graph=lambda path, _: os.path.basename(path))
    monkeypatch.setitem(backends.BACKENDS, "onnx", backend)


def make_arrays() -> dict:
    """Returns the arrays of a 1-gram model with a single state."""
    lengths = dict.fromkeys(ngrams.BackOffArrays._fields[1:9], 1)
    lengths |= {"unigram_log_probs": 4, "unigram_states": 4}
    arrays = {name: np.zeros(length, int) for name, length in lengths.items()}
    return {**arrays, "order": 1, "start_state": 0, "keys": np.array([-1])}


def refuse(directory) -> str:
    with pytest.raises(errors.UserError) as raised:
        model.load(str(directory))
    return str(raised.value).replace(f"{directory}/", "")


def test_a_model_with_all_parts(tmp_path):
    content = io.BytesIO()
    np.savez(content, **make_arrays())
    names = ("decoder.onnx", "language.onnx", "acoustic_ngram.npz")
    lists = {"characters.txt": "<unk>\n你\n".encode(), "language_tokens.txt": TOKENS}
    files = {**FILES, **dict.fromkeys(names[:2], b"graph"), names[2]: content.getvalue(), **lists}
    decode = {**runtime_models.DECODE, "attention_weight": 0.5, "ngram_weight": 0.1}
    path = runtime_models.write(tmp_path, files, acoustic=decode, language=runtime_models.DECODE)
    loaded = model.load(path)
    assert loaded.tokens == runtime_models.TOKENS
    assert loaded.settings.joining.join(["你", "好"]) == "你好"
    assert loaded.characters == ("<unk>", "你")
    assert loaded.language_ids == {"<unk>": 0, "ni3": 1, "hao3": 2, "A": 3}
    assert loaded.acoustic_ngram.context_length == 0
    assert loaded.language_ngram is None
    assert loaded.settings.acoustic == model_json.Decode(**decode)
    assert (loaded.acoustic, loaded.decoder, loaded.language) == ("acoustic.onnx", *names[:2])


def test_a_punctuation_model_with_its_own_rules(tmp_path):
    rules = {"layout": 1, "starts": "一", "spans": "一", "longest_follower": 0, "parts": {}}
    rules["rules"] = [{"find": "(一)"}]
    lists = {"punctuation_characters.txt": "<unk>\n你\n".encode()}
    files = {**FILES, **lists, "punctuation.onnx": b"graph", "written_form.json": json.dumps(rules).encode()}
    settings = {"marks": ["", "，"], "pause_weight": 2.0, "pause_offset": 0.25, "longest_pause": 1.0}
    loaded = model.load(runtime_models.write(tmp_path, files, punctuation=settings)).punctuation
    assert (loaded.graph, loaded.character_ids) == ("punctuation.onnx", {"<unk>": 0, "你": 1})
    assert loaded.settings == model_json.Punctuation(**settings)
    assert loaded.form.write("一一二二") == "11二二"


def test_a_model_of_an_earlier_release_has_no_punctuation_model(tmp_path):
    assert "punctuation" not in runtime_models.make_values()
    assert model.load(runtime_models.write(tmp_path, FILES)).punctuation is None


def test_no_model(tmp_path):
    expected = "pass an export directory that contains an ONNX or LiteRT model"
    assert refuse(tmp_path) == f"model.json: No such file or directory; {expected}"


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_model_json_is_not_json(tmp_path, content):
    (tmp_path / "model.json").write_bytes(content)
    assert refuse(tmp_path) == f"model.json is not valid JSON; {AGAIN}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"layout": None}, ": layout is None, expected 1"),
        ({"layout": 2}, ": layout is 2, expected 1"),
        ({"acoustic": {"decoding": "beam"}}, " has no field 'beam_width'"),
        ({"format": "coreml"}, ": format is coreml, expected onnx or litert"),
    ],
)
def test_model_json_of_another_release(tmp_path, changes, problem):
    runtime_models.write(tmp_path, FILES, **changes)
    expected = "install the release of estimator-asr-runtime that matches the export"
    assert refuse(tmp_path) == f"model.json{problem}; {expected}"


def test_model_json_was_changed(tmp_path):
    runtime_models.write(tmp_path, FILES)
    values = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**values, "sample_rate": 8000}))
    assert refuse(tmp_path) == f"model.json was changed after the export; {AGAIN}"


def test_files_are_checked_against_their_digests(tmp_path):
    runtime_models.write(tmp_path, FILES)
    (tmp_path / "acoustic.onnx").write_bytes(b"grap")
    assert refuse(tmp_path) == f"acoustic.onnx has 4 bytes, expected 5; {AGAIN}"
    (tmp_path / "acoustic.onnx").write_bytes(b"grapH")
    expected = "is damaged: its contents do not match the SHA-256 in model.json"
    assert refuse(tmp_path) == f"acoustic.onnx {expected}; {AGAIN}"
    (tmp_path / "acoustic.onnx").unlink()
    assert refuse(tmp_path) == f"acoustic.onnx: No such file or directory; {AGAIN}"
    os.mkfifo(tmp_path / "acoustic.onnx")  # a pipe would wait for a writer
    assert refuse(tmp_path) == f"acoustic.onnx is not a regular file; {AGAIN}"


def test_fields_are_those_of_the_trainer():
    pytest.importorskip("tensorflow")
    from estimator_asr.experiment import config

    ours = {field.name: field.type for field in dataclasses.fields(model_json.Decode)}
    theirs = {field.name: field.type for field in dataclasses.fields(config.DecodeConfig)}
    pauses = {name: kind for name, kind in theirs.items() if name.startswith("pause_")}
    assert ours == {name: kind for name, kind in theirs.items() if not name.startswith(("whisper", "pause"))}
    settings = {field.name: field.type for field in dataclasses.fields(model_json.Punctuation)}
    assert settings == {"marks": "Sequence[str]", **pauses, "longest_pause": "float"}
