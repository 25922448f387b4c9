"""Model directories: what is missing, damaged or foreign is one sentence."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zipfile

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
    backend = backends.BACKENDS["onnx"]._replace(graph=lambda path, _: made[os.path.basename(path)])
    monkeypatch.setitem(backends.BACKENDS, "onnx", backend)
    return made


def make_arrays(num_tokens: int = 4, **changes) -> ngrams.BackOffArrays:
    """Returns a 1-gram model of one state."""
    sizes = {"keys": 1, "log_probs": 1, "next_states": 1, "unigram_log_probs": num_tokens}
    sizes = {**sizes, "unigram_states": num_tokens, **dict.fromkeys(ngrams.BackOffArrays._fields[6:9], 1)}
    is_float = {name: name.endswith(("log_probs", "weights")) for name in sizes}
    arrays = {name: np.zeros(size, np.float32 if is_float[name] else int) for name, size in sizes.items()}
    return ngrams.BackOffArrays(**{**arrays, "order": 1, "start_state": 0, "keys": np.array([-1]), **changes})


def refuse(directory) -> str:
    with pytest.raises(errors.UserError) as raised:
        model.load(str(directory))
    return str(raised.value).replace(f"{directory}/", "")


def test_a_model_with_all_parts(tmp_path):
    arrays = make_arrays()
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


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_model_json_is_not_json(tmp_path, content):
    (tmp_path / "model.json").write_bytes(content)
    assert refuse(tmp_path) == f"model.json: is not valid JSON; {AGAIN}"


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
    assert refuse(tmp_path) == (
        f"model.json: acoustic.beam_width is missing, expected an integer from 1 to 1000000; {AGAIN}"
    )
    runtime_models.write(tmp_path, FILES, format="tf")
    assert refuse(tmp_path) == f"model.json: format is tf, expected onnx or litert; {AGAIN}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sample_rate": True}, "sample_rate is True, expected an integer from 1000 to 1000000"),
        ({"sample_rate": 16000.0}, "sample_rate is 16000.0, expected an integer from 1000 to 1000000"),
        ({"max_seconds": 3601}, "max_seconds is 3601, expected an integer from 1 to 3600"),
        ({"min_samples": 0}, "min_samples is 0, expected an integer from 1 to 1000000"),
        ({"output_seconds": "1"}, "output_seconds is 1, expected a number from 0.0001 to 10"),
        ({"output_seconds": np.nan}, "output_seconds is nan, expected a number from 0.0001 to 10"),
        ({"acoustic": []}, "acoustic is [], expected an object"),
        ({"language": 0}, "language is 0, expected an object"),
        ({"token_type": [1]}, "token_type is [1], expected syllable or toneless or initial_final or "),
        (
            {"token_type": "bpe", "language": runtime_models.DECODE},
            "token_type is bpe, expected syllable or ",
        ),
        ({"beam_width": 0}, "acoustic.beam_width is 0, expected an integer from 1 to 1000000"),
        ({"decoding": "best"}, "acoustic.decoding is best, expected beam or greedy"),
        ({"ngram_weight": -1}, "acoustic.ngram_weight is -1, expected a number from 0 to 1000000"),
        ({"skipped_blank": 0}, "acoustic.skipped_blank is 0, expected a number from 1e-09 to 1"),
        ({"token_bonus": np.inf}, "acoustic.token_bonus is inf, expected a number from -1000000 to 1000000"),
    ],
)
def test_a_field_out_of_range(tmp_path, changes, problem):
    if set(changes) <= set(runtime_models.DECODE):
        changes = {"acoustic": {**runtime_models.DECODE, **changes}}
    runtime_models.write(tmp_path, FILES, **changes)
    assert refuse(tmp_path).startswith(f"model.json: {problem}")


@pytest.mark.parametrize("name", ["../a", "/a", "a/b", "..", "", "a\0", "\ud800", "a\\b"])
def test_names_of_files_have_no_directory(tmp_path, name):
    listed = {name: {"num_bytes": 1, "sha256": "0" * 64}}
    runtime_models.write_json(tmp_path, runtime_models.make_values(files=listed))
    expected = f"expected one without a directory; {AGAIN}"
    assert refuse(tmp_path) == f"model.json: a name in files is {name!a}, {expected}"


@pytest.mark.parametrize("file", [{"sha256": "0" * 64}, {"num_bytes": 5, "sha256": None}, {"num_bytes": "5"}])
def test_a_size_or_digest_that_is_missing_or_of_another_type(tmp_path, file):
    (tmp_path / "a").write_bytes(b"graph")
    runtime_models.write_json(tmp_path, runtime_models.make_values(files={"a": file}))
    assert refuse(tmp_path).startswith("a: is damaged" if file.get("num_bytes") == 5 else "a: has 5 bytes, ")


def test_what_is_not_a_regular_file(tmp_path):
    runtime_models.write(tmp_path, FILES)
    (tmp_path / "acoustic.onnx").unlink()
    os.mkfifo(tmp_path / "acoustic.onnx")  # a pipe would wait for a writer
    expected = f"is not a regular file, expected a file of the export; {AGAIN}"
    assert refuse(tmp_path) == f"acoustic.onnx: {expected}"


def test_syllables_are_joined_by_spaces(tmp_path):
    settings = model.load(runtime_models.write(tmp_path, FILES)).settings
    assert settings.joining.join(["ni3", "hao3"]) == "ni3 hao3"


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


@pytest.mark.parametrize("characters", [np.zeros([1, 1, 2], np.float32), np.zeros([1, 1, 0], np.int32)])
def test_a_language_graph_without_characters(tmp_path, graphs, characters):
    log_probs = np.zeros(characters.shape, np.float32)
    graphs["language.onnx"] = runtime_models.Graph(characters=characters, log_probs=log_probs)
    lists = {"characters.txt": b"<unk>\n", "language_tokens.txt": TOKENS, "language.onnx": b"graph"}
    runtime_models.write(tmp_path, {**FILES, **lists}, language=runtime_models.DECODE)
    got = f"{characters.dtype}, {characters.shape[2]} of each token"
    assert refuse(tmp_path) == (
        f"{tmp_path}: characters of the language graph are {got}, expected one or more integers; export again"
    )


def test_a_foreign_ngram_model(tmp_path):
    decode = {**runtime_models.DECODE, "ngram_weight": 0.1}
    runtime_models.write(tmp_path, {**FILES, "acoustic_ngram.npz": b"PK"}, acoustic=decode)
    assert refuse(tmp_path) == "acoustic_ngram.npz: is not a valid n-gram model; export again"
    arrays = make_arrays(5)
    np.savez(tmp_path / "other.npz", **arrays._asdict())
    files = {**FILES, "acoustic_ngram.npz": (tmp_path / "other.npz").read_bytes()}
    runtime_models.write(tmp_path, files, acoustic=decode)
    expected = "has 5 tokens, expected the 4 of the model; export again"
    assert refuse(tmp_path) == f"acoustic_ngram.npz: {expected}"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"keys": np.array([-1.0])}, "keys is float64 of rank 1, expected int of rank 1"),
        ({"order": np.array([1])}, "order is int64 of rank 1, expected int of rank 0"),
        ({"order": 11}, "order is 11 to 11, expected 1 to 10"),
        ({"keys": np.array([-1, 2])}, "length of keys, log_probs, next_states is [2, 1, 1], expected equal "),
        ({"next_states": np.array([1])}, "next_states is 1 to 1, expected 0 to 0"),
        ({"start_state": -1}, "start_state is -1 to -1, expected 0 to 0"),
        ({"keys": np.array([0])}, "keys do not increase, expected increasing ones from -1 on"),
        ({"log_probs": np.float32([np.nan])}, "log_probs is nan to nan, expected -inf to 1000000.0"),
    ],
)
def test_arrays_of_an_ngram_model_that_do_not_fit(tmp_path, changes, problem):
    np.savez(tmp_path / "a.npz", **make_arrays(**changes)._asdict())
    with pytest.raises(errors.UserError) as raised:
        ngrams.load(str(tmp_path / "a.npz"), 4)
    assert str(raised.value).startswith(f"{tmp_path}/a.npz: {problem}")


def test_an_ngram_model_that_claims_too_much(tmp_path):
    np.savez(tmp_path / "a.npz", **make_arrays()._asdict())
    content = (tmp_path / "a.npz").read_bytes()
    place = content.index(b"PK\x01\x02") + 24  # the size in the list of the archive
    (tmp_path / "a.npz").write_bytes(content[:place] + b"\xff\xff\xff\x7f" + content[place + 4 :])
    with pytest.raises(errors.UserError, match="is not a valid n-gram model; export again"):
        ngrams.load(str(tmp_path / "a.npz"), 4)


@pytest.mark.parametrize("shape", ["(", "(1152921504606846976,)", "(-5,)", "(" * 300])
def test_arrays_of_an_ngram_model_with_absurd_headers(tmp_path, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ngrams.BackOffArrays._fields:
            archive.writestr(f"{name}.npy", content)
    with pytest.raises(errors.UserError, match="is not a valid n-gram model; export again"):
        ngrams.load(str(tmp_path / "a.npz"), 4)


def test_fields_are_those_of_the_trainer():
    pytest.importorskip("tensorflow")
    from estimator_asr.experiment import config

    ours = {field.name: field.type for field in dataclasses.fields(model_json.Decode)}
    theirs = {field.name: field.type for field in dataclasses.fields(config.DecodeConfig)}
    assert ours == {name: kind for name, kind in theirs.items() if "whisper" not in name}
