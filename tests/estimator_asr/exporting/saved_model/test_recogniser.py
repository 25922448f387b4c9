"""Exports are found and loaded; test_signatures.py runs them."""

import dataclasses
import pathlib
import shutil
import types

import pytest

from estimator_asr.exporting.saved_model import export_info, recogniser, saved_model_writer, trained_model
from tfrecord_builder import errors


def make_version(export_dir, name, whole=True):
    path = pathlib.Path(export_dir, name)
    path.mkdir(parents=True)
    if whole:
        (path / "saved_model.pb").write_bytes(b"")
    return str(path)


def test_newest_complete_version_is_found_by_number_not_by_name(tmp_path):
    make_version(tmp_path, "9")
    newest = make_version(tmp_path, "10")
    assert recogniser.find_version(str(tmp_path / "9")) == str(tmp_path / "9")
    make_version(tmp_path, "11", whole=False)
    make_version(tmp_path, "incomplete-12")
    assert recogniser.list_versions(str(tmp_path)) == [9, 10]
    assert recogniser.find_version(str(tmp_path)) == newest


def test_a_number_with_leading_zeros_is_not_a_version(tmp_path):
    path = make_version(tmp_path, "007")
    assert recogniser.list_versions(str(tmp_path)) == []
    make_version(tmp_path, "6")
    assert recogniser.find_version(str(tmp_path)) == str(tmp_path / "6")
    assert recogniser.find_version(path) == path


@pytest.mark.parametrize("is_there", [True, False])
def test_a_directory_without_a_saved_model_is_refused(tmp_path, is_there):
    path = tmp_path / "export"
    if is_there:
        path.mkdir()
    message = r"export contains no SavedModel; pass an export directory or one"
    with pytest.raises(errors.UserError, match=message):
        recogniser.find_version(str(path))


def test_a_saved_model_of_another_project_is_refused(tmp_path):
    path = make_version(tmp_path, "1")
    with pytest.raises(errors.UserError, match=r"export\.json cannot be read .*export the model again"):
        export_info.load(path)


@pytest.mark.long
def test_run_gives_python_values_and_ignores_other_features(tiny_export):
    model = recogniser.load(tiny_export.version_dir, "waveform")
    waveform = tiny_export.utterances["u1"][-1]
    batch = {"waveform": waveform[None], "num_samples": [len(waveform)], "utterance_id": [b"u1"]}
    result = model.run(batch)
    assert {name: [type(item) for item in value] for name, value in result.items()} == {
        **dict.fromkeys(("status", "transcript", "pinyin", "greedy_pinyin"), [str]),
        **dict.fromkeys(("acoustic_score", "language_score", "confidence"), [float]),
        **dict.fromkeys(("characters", "n_best"), [list]),
    }
    character, hypothesis = result["characters"][0][0], result["n_best"][0][0]
    assert {name: type(value) for name, value in character.items()} == {
        **dict.fromkeys(("character", "pinyin"), str),
        **dict.fromkeys(("start", "end", "confidence"), float),
    }
    assert {name: type(value) for name, value in hypothesis.items()} == {"transcript": str, "score": float}


@pytest.mark.long
def test_outputs_have_the_same_order_in_each_process(tiny_export):
    loaded = recogniser.load_version(tiny_export.version_dir)
    definition = loaded.definitions["waveform"]
    backwards = types.SimpleNamespace(
        inputs=definition.inputs,
        outputs={name: definition.outputs[name] for name in sorted(definition.outputs, reverse=True)},
    )
    model = dataclasses.replace(loaded, definitions={"waveform": backwards}).find("waveform")
    assert list(model.outputs) == sorted(definition.outputs)


@pytest.mark.long
def test_two_exports_run_side_by_side(tiny_export, tmp_path):
    copy = shutil.copytree(tiny_export.version_dir, tmp_path / "1")
    waveform = tiny_export.utterances["u2"][-1]
    batch = {"waveform": waveform[None], "num_samples": [len(waveform)]}
    models = [recogniser.load(str(path), "waveform") for path in (tiny_export.version_dir, copy)]
    assert models[0].run(batch) == models[1].run(batch)


@pytest.mark.long
def test_hotwords_are_refused_by_an_export_that_decodes_greedily(tiny_export, tmp_path):
    acoustic = trained_model.open_trained_model(tiny_export.acoustic_dir, "greedy")
    version_dir = saved_model_writer.write(acoustic, None, str(tmp_path))
    with pytest.raises(errors.UserError) as refused:
        recogniser.load(version_dir, "waveform", ["你好"])
    assert str(refused.value) == (
        f"{version_dir}: the model does not support hotwords, which need syllable tokens and beam search; "
        "export a syllable model with --decoding=beam, or omit the hotwords"
    )
