"""The punctuation model in other formats: its graph, and its marks, which must be the SavedModel's."""

import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf
import tiny_models
from format_exports import FORMATS, WAVEFORMS, export, open_model

from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting.formats import agreement, bundle, parts
from estimator_asr.exporting.saved_model import export_info, trained_model
from estimator_asr.exporting.saved_model import recogniser as saved_model
from estimator_asr.models import token_encoder
from estimator_asr_runtime import backends, marking
from estimator_asr_runtime import model as runtime_model
from estimator_asr_runtime import recogniser as runtime
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary


@pytest.fixture(scope="module")
def models(tiny_export, tmp_path_factory) -> list[trained_model.TrainedModel]:
    """An acoustic, a language and a punctuation model, for which pauses count."""
    path = str(tmp_path_factory.mktemp("models") / "pm")
    tiny_models.make_punctuation_model(path)
    pair = map(open_model, (tiny_export.acoustic_dir, tiny_export.language_dir))
    return [*pair, open_model(path, pause_weight=9.0, pause_offset=0.05)]


@pytest.mark.long
def test_marks_are_those_of_the_saved_model(models, tmp_path):
    version_dir = export(tmp_path, FORMATS, *models)
    version, info = saved_model.load(version_dir, "waveform"), export_info.load(version_dir)
    batch = {"waveform": WAVEFORMS[3][None], "num_samples": [len(WAVEFORMS[3])]}
    (expected,) = version.run(batch)["punctuated"]
    version.session.close()
    for name in FORMATS:
        model_dir = os.path.join(version_dir, name)
        found = runtime.Recogniser(runtime_model.load(model_dir, num_threads=1)).recognise(WAVEFORMS[3])
        assert found["punctuated"] == expected != found["transcript"]  # there are marks
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
    monkeypatch.setattr(marking.Punctuator, "_find_marks", lambda self, items: ["；"] * len(items))
    wanted = "^export: utterance u. in onnx: punctuated is '.*；', expected .* Nothing was exported"
    with pytest.raises(errors.UserError, match=wanted):
        export(tmp_path, ["onnx"], *models)
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
    assert 7_000_000 < num_bytes < 15_000_000  # the model has 8 million weights


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_hashes_of_ngrams_are_equal(tmp_path, name):
    """The ids of n-grams of 8,000 characters do not fit into 32 bits."""
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
        ("你_号_吗？", 0),  # the marks after different characters are not compared
        ("你_你_好，吗。", 1),
        ("", 0),
    ],
)
def test_changed_marks(got, changed):
    assert agreement.count_changed_marks(list_characters("你_好，吗？"), list_characters(got)) == changed
