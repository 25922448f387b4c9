"""The program that writes a page: the files that it writes, and the input that it refuses."""

import dataclasses
import hashlib
import io
import json
import os

import numpy as np
import pytest
import runtime_models

from estimator_asr_runtime import errors, model, model_json, ngrams, page

ARRAYS = ngrams.BackOffArrays(
    order=np.int64(2),
    keys=np.array([-1, 5, 2**40], np.int64),
    log_probs=np.array([0.0, -0.5, -0.25], np.float32),
    next_states=np.array([0, 1, 2], np.int32),
    unigram_log_probs=np.array([-1, -2, -3, -4], np.float32),
    unigram_states=np.array([0, 1, 2, 0], np.int32),
    back_off_weights=np.zeros(3, np.float32),
    back_off_states=np.zeros(3, np.int32),
    end_log_probs=np.full(3, -1, np.float32),
    start_state=np.int32(1),
)


@pytest.fixture
def library(tmp_path) -> str:
    path = tmp_path / "package" / "dist"
    path.mkdir(parents=True)
    for name in ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm", "ort.webgpu.min.mjs"):
        (path / name).write_text(name, encoding="utf-8")
    return str(path.parent)


@pytest.fixture
def export(tmp_path, monkeypatch) -> str:
    """A model directory with an n-gram model; loading it runs no graphs."""
    content = io.BytesIO()
    np.savez(content, **ARRAYS._asdict())
    tokens = "".join(f"{token}\n" for token in runtime_models.TOKENS).encode()
    files = {"acoustic.onnx": b"graph", "tokens.txt": tokens, "acoustic_ngram.npz": content.getvalue()}
    (tmp_path / "onnx").mkdir()
    path = runtime_models.write(tmp_path / "onnx", files)

    def load(directory, num_threads):
        made = runtime_models.make_model(runtime_models.make_log_probs([1, 4, 2]))
        settings = model_json.load(directory)
        scorer = ngrams.NgramScorer(ARRAYS, 0.5)
        return dataclasses.replace(made, path=directory, settings=settings, acoustic_ngram=scorer)

    monkeypatch.setattr(model, "load", load)
    return path


def run(export, library, output) -> int:
    return page.main([f"--model={export}", f"--onnxruntime_web={library}", f"--output_dir={output}"])


def refuse(export, library, output) -> str:
    with pytest.raises(errors.UserError) as raised:
        page.write(str(export), str(library), str(output))
    return str(raised.value)


def test_the_folder_has_the_page_the_model_and_its_library(export, library, tmp_path, capsys):
    output = tmp_path / "made" / "page"
    assert run(export, library, output) == 0
    assert capsys.readouterr().out.endswith(f"serve it with python -m http.server --directory={output}\n")
    names = {str(path.relative_to(output)) for path in output.rglob("*") if path.is_file()}
    assert {"index.html", "page.js", "recogniser.js", "worker.js", "shared/style.css", "model.json"} < names
    assert (output / "ort.js").read_text(encoding="utf-8") == "ort.wasm.bundle.min.mjs"
    assert (output / "ort.wasm").read_text(encoding="utf-8") == "ort-wasm-simd-threaded.wasm"
    assert (output / "model" / "acoustic.onnx").read_bytes() == b"graph"
    assert not [name for name in names if name.endswith((".npz", "webgpu.min.mjs"))]
    assert os.listdir(tmp_path / "made") == ["page"]


def test_model_json_has_settings_sizes_and_arrays(export, library, tmp_path):
    output = tmp_path / "page"
    output.mkdir()  # an empty directory is accepted
    size = page.write(export, os.path.join(library, "dist"), str(output))
    assert size == sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    listing = json.loads((output / "model.json").read_text(encoding="utf-8"))
    assert listing["sample_rate"] == 16000 and "sha256" not in listing
    assert listing["files"].keys() > {"ort.wasm", "model/acoustic.onnx", "model/tokens.txt"}
    for name, described in listing["files"].items():
        content = (output / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        assert described == {"num_bytes": len(content), "sha256": digest}
    ngram = listing["ngrams"]["acoustic"]
    assert (ngram["order"], ngram["start_state"], listing["ngrams"]["language"]) == (2, 1, None)
    for name, each in ngram["arrays"].items():
        read = np.fromfile(output / each["file"], np.dtype(each["type"]).newbyteorder("<"))
        np.testing.assert_array_equal(read, getattr(ARRAYS, name))
    assert ngram["arrays"]["keys"]["type"] == "float64"


def test_the_model_is_that_of_the_newest_version(export, library, tmp_path):
    version_dir = tmp_path / "export" / "7"
    version_dir.mkdir(parents=True)
    (version_dir / "litert").mkdir()
    os.rename(export, version_dir / "onnx")
    assert run(tmp_path / "export", library, tmp_path / "page") == 0
    assert (tmp_path / "page" / "model" / "acoustic.onnx").read_bytes() == b"graph"


def test_files_stay_in_the_folder_whatever_they_are_called(export, library, tmp_path):
    runtime_models.write(tmp_path / "onnx", {"../a": b"graph"})
    page.write(export, library, str(tmp_path / "made" / "page"))
    assert (tmp_path / "made" / "page" / "model" / "a").read_bytes() == b"graph"
    assert os.listdir(tmp_path / "made") == ["page"]


def test_scripts_import_and_load_only_existing_files(export, library, tmp_path):
    output = tmp_path / "page"
    page.write(export, library, str(output))
    text = "".join(path.read_text(encoding="utf-8") for path in output.glob("*.*") if path.suffix != ".wasm")
    assert "https://" not in text and "http://" not in text
    for name in os.listdir(output):
        if name.endswith(".js") and name not in ("ort.js", "page.js"):
            assert f'"./{name}"' in text or f'"{name}"' in text, f"nothing reads {name}"
    assert 'src="page.js"' in (output / "index.html").read_text(encoding="utf-8")


def test_a_directory_without_the_library(export, tmp_path, capsys):
    assert run(export, tmp_path, tmp_path / "page") == 1
    assert capsys.readouterr().err == (
        f"{tmp_path} does not contain dist/ort.wasm.bundle.min.mjs and dist/ort-wasm-simd-threaded.wasm of "
        "onnxruntime-web 1.21 or later; run `npm pack onnxruntime-web`, unpack the archive with tar, and "
        "pass its package directory\n"
    )


def test_an_output_directory_with_files(export, library, tmp_path):
    message = f"{tmp_path} is not an empty directory; choose another --output_dir"
    assert refuse(export, library, tmp_path) == message


def test_another_format(export, library, tmp_path, monkeypatch):
    loaded = model.load(export, 1)
    settings = dataclasses.replace(loaded.settings, format="litert")
    monkeypatch.setattr(model, "load", lambda *_, **__: dataclasses.replace(loaded, settings=settings))
    message = f"{export}: format is litert, expected onnx; export with --format=onnx"
    assert refuse(export, library, tmp_path / "page") == message


def test_a_damaged_model(export, library, tmp_path):
    with open(os.path.join(export, "acoustic.onnx"), "wb") as file:
        file.write(b"g")
    assert "has 1 bytes, expected 5" in refuse(export, library, tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_a_directory_that_cannot_be_written_leaves_nothing(export, library, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    message = refuse(export, library, tmp_path / "file" / "page")
    assert message.endswith("choose another --output_dir") and message.startswith("cannot write to ")


def test_a_write_that_fails_leaves_nothing(export, library, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dump", fail)
    output = tmp_path / "made" / "page"
    message = f"cannot write to {output} (No space left on device); choose another --output_dir"
    assert refuse(export, library, output) == message
    assert os.listdir(tmp_path / "made") == []


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        page.main(["--help"])
    assert "npm pack onnxruntime-web" in capsys.readouterr().out
