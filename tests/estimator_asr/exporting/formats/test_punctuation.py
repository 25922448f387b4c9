"""The punctuation model in other formats: its graph, and marks compared with the SavedModel's."""

from __future__ import annotations

import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf
import tiny_models

from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting import sample
from estimator_asr.exporting.formats import agreement, bundle, parts
from estimator_asr.exporting.saved_model import export_info, saved_model_writer, trained_model
from estimator_asr.exporting.saved_model import recogniser as saved_model
from estimator_asr.models import token_encoder
from estimator_asr_runtime import backends, marking
from estimator_asr_runtime import model as runtime_model
from estimator_asr_runtime import recogniser as runtime
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary

FORMATS = ["litert", "onnx"]
WAVEFORMS = [tiny_models.make_waveform(4000 + 7000 * i, seed=i) for i in range(4)]
UTTERANCES = [
    sample.ParityUtterance(f"u{i}", np.zeros([1, 20], np.float32), each) for i, each in enumerate(WAVEFORMS)
]


@pytest.fixture(scope="module")
def models(tiny_export, tmp_path_factory) -> list[trained_model.TrainedModel]:
    """An acoustic, a language and a punctuation model; pauses count."""
    path = str(tmp_path_factory.mktemp("models") / "pm")
    tiny_models.make_punctuation_model(path)
    opened = map(trained_model.open_trained_model, (tiny_export.acoustic_dir, tiny_export.language_dir, path))
    # Random weights have many hypotheses of almost one score: none is to be at the edge of the beam.
    settings = {"beam_width": 40, "pause_weight": 9.0, "pause_offset": 0.05}
    changed = []
    for trained in opened:
        decode = dataclasses.replace(trained.model.decode, **settings)
        changed.append(trained._replace(model=dataclasses.replace(trained.model, decode=decode)))
    return changed


def export(models, path, names) -> str:
    def complete(version_dir, info):
        formats = bundle.add(version_dir, names, "float32", *models[:2], info, UTTERANCES, models[2])
        return dataclasses.replace(info, formats={name: vars(each) for name, each in formats.items()})

    return saved_model_writer.write(*models[:2], str(path / "export"), complete, models[2])


@pytest.mark.long
def test_marks_are_those_of_the_saved_model(models, tmp_path):
    version_dir = export(models, tmp_path, FORMATS)
    version, info = saved_model.load(version_dir, "waveform"), export_info.load(version_dir)
    batch = {"waveform": WAVEFORMS[3][None], "num_samples": [len(WAVEFORMS[3])]}
    (expected,) = version.run(batch)["punctuated"]
    version.session.close()
    for name in FORMATS:
        model_dir = os.path.join(version_dir, name)
        found = runtime.Recogniser(runtime_model.load(model_dir, num_threads=1)).recognise(WAVEFORMS[3])
        assert found["punctuated"] == expected != found["transcript"]  # it has marks
        assert info.formats[name]["num_changed_marks"] == 0
        with open(os.path.join(model_dir, "model.json"), encoding="utf-8") as file:
            assert json.load(file)["punctuation"] == {
                "marks": ["", "，", "。", "？", "！", "、", "；", "："],
                "pause_weight": 9.0,
                "pause_offset": 0.05,
                "longest_pause": 1.0,
            }


@pytest.mark.long
def test_a_format_with_other_marks_is_not_written(models, tmp_path, monkeypatch):
    monkeypatch.setattr(marking.Punctuator, "_find_marks", lambda self, items, _: ["；"] * len(items))
    wanted = "^export: utterance u. in onnx: punctuated is '.*；', expected .* Nothing was exported"
    with pytest.raises(errors.UserError, match=wanted):
        export(models, tmp_path, ["onnx"])
    assert os.listdir(tmp_path / "export") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_an_int8_model_of_the_default_size_adds_at_most_15_mb(models, monkeypatch, name):
    model = models[2].model
    characters = vocabulary.Vocabulary(["<unk>", *(chr(0x4E00 + i) for i in range(7999))])
    config = dataclasses.replace(model.config, punctuation=config_lib.PunctuationConfig())
    trained = models[2]._replace(model=dataclasses.replace(model, config=config, characters=characters))
    initialize = tf.compat.v1.global_variables_initializer
    monkeypatch.setattr(parts.cascade, "restore", lambda session, *_: session.run(initialize()))
    part = parts._freeze("punctuation", trained, lambda: parts._build_punctuation(trained))
    num_bytes = len(bundle.CONVERTERS[name].convert(part, "int8"))
    assert 7_000_000 < num_bytes < 15_000_000  # 8 million weights


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_hashes_of_ngrams_are_equal(tmp_path, name):
    """N-grams of 8,000 characters need integers of more than 32 bits."""
    ids = np.random.default_rng(0).integers(0, 8000, [1, 50], np.int32)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        placeholder = tf.compat.v1.placeholder(tf.int32, [1, None], "token_ids")
        mask = tf.cast(placeholder >= 0, tf.float32)
        rows = token_encoder.hash_ngrams(placeholder, mask, 8000, 262139)
        expected = session.run(tf.cast(rows, tf.int32, "rows"), {placeholder: ids})
    part = parts.Part("hashes", graph.as_graph_def(), ("token_ids",), ("rows",))
    path = tmp_path / name
    path.write_bytes(bundle.CONVERTERS[name].convert(part, "float32"))
    found = backends.BACKENDS[name].graph(str(path), 1).run({"token_ids": ids})["rows"]
    np.testing.assert_array_equal(found, expected)


def list_characters(text: str) -> list[dict]:
    """Returns characters and the marks after them; "_" stands for no mark."""
    return [{"character": text[i], "mark": text[i + 1].strip("_")} for i in range(0, len(text), 2)]


@pytest.mark.parametrize(
    ("got", "changed"),
    [
        ("你_好，吗？", 0),
        ("你_好_吗？", 1),
        ("你，好_吗。", 3),
        ("你_号_吗？", 0),  # another character has no mark to compare
        ("你_你_好，吗。", 1),
        ("", 0),
    ],
)
def test_changed_marks(got, changed):
    assert agreement.count_changed_marks(list_characters("你_好，吗？"), list_characters(got)) == changed


def test_too_many_changed_marks_are_refused():
    compared = agreement.Agreement("onnx", "int8", 9, num_characters=100, num_changed_marks=4)
    with pytest.raises(errors.UserError) as refused:
        compared.check_changes()
    assert str(refused.value) == (
        "export: int8 onnx differs from the float32 SavedModel in 0 of 100 characters (9 recordings) and in "
        "the marks after 4 characters; at most 3 may differ. Nothing was exported. Pass other --weights, or "
        "train the model further."
    )
    dataclasses.replace(compared, num_changed_marks=3).check_changes()
