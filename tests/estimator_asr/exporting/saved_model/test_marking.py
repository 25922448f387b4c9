"""Marks in exports: the signature punctuate, and the transcripts of audio signatures with marks."""

import contextlib
import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tiny_models

from estimator_asr.exporting.saved_model import marking, recogniser, saved_model_writer, trained_model
from estimator_asr.models.tasks import tasks
from estimator_asr_runtime import written_form
from tfrecord_builder import errors
from tfrecord_builder.data import marks

pytestmark = pytest.mark.long

OFFSET = 0.25  # seconds


@pytest.fixture(scope="module")
def export(trained_models, tmp_path_factory):
    """The punctuation model's directory, and a loaded version that contains the model."""
    path = tmp_path_factory.mktemp("marking")
    tiny_models.make_punctuation_model(str(path / "pm"), pause_weight=2.0, pause_offset=OFFSET)
    punctuation = trained_model.open_trained_model(str(path / "pm"))
    version = saved_model_writer.write(*trained_models, str(path / "export"), punctuation=punctuation)
    loaded = recogniser.load_version(version)
    with contextlib.closing(loaded.session):
        yield str(path / "pm"), loaded


def find_marks(loaded, texts, pauses):
    inputs = {"characters": np.array(texts, object), "pauses": np.float32(pauses)}
    outputs = loaded.find("punctuate").fetch(inputs)
    found = [[mark.decode() for mark in row] for row in outputs["marks"]]
    return found, [status.decode() for status in outputs["status"]]


def score_marks(path, characters):
    """Runs the model without an export; returns its logits, float32 [num_characters, 8]."""
    trained = trained_model.open_trained_model(path)
    task = tasks.for_model(trained.model)
    ids = np.int32([trained.model.characters.encode(characters)])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = task.placeholders()
        logits = task.build(features)
        tf.compat.v1.train.Saver().restore(session, trained.checkpoint)
        fed = {features["character_ids"]: ids, features["num_characters"]: np.int32([ids.size])}
        return session.run(logits, fed)[0]


def test_a_pause_adds_its_weight_to_the_log_odds_of_every_mark(export):
    path, loaded = export
    characters = list("你好吗妈是气")
    pauses = [0.0, OFFSET, 0.5, 1.0, 7.0, 0.1]  # a pause counts as at most 1 s
    logits = score_marks(path, characters)
    log_odds = np.logaddexp.reduce(logits[:, 1:], axis=1) - logits[:, 0]  # log odds that a mark follows
    log_odds += 2.0 * (np.array([0.0, OFFSET, 0.5, 1.0, 1.0, 0.1]) - OFFSET)
    is_marked = log_odds > np.log(0.4 / 0.6)
    is_marked[-1] = True  # a mark always ends the text
    best = logits[:, 1:].argmax(axis=1) + 1
    expected = [marks.MARKS[i] if is_set else "" for i, is_set in zip(best, is_marked)]
    assert find_marks(loaded, [" ".join(characters)], [pauses]) == ([expected], ["ok"])
    assert len(set(expected)) > 2


def test_a_transcript_has_marks_by_its_characters_and_the_pauses_between_them(export, waveform_batch):
    _, loaded = export
    outputs = loaded.find("waveform").run(waveform_batch)
    for items, text, punctuated in zip(outputs["characters"], outputs["transcript"], outputs["punctuated"]):
        starts = [*(item["start"] for item in items[1:]), 99.0]  # the last pause has no effect
        pauses = [start - item["end"] for start, item in zip(starts, items)]
        (found,), _ = find_marks(loaded, [" ".join(item["character"] for item in items)], [pauses])
        assert [item["mark"] for item in items] == found
        assert punctuated == "".join(item["character"] + item["mark"] for item in items)
        assert "".join(c for c in punctuated if c not in marks.MARKS[1:]) == text
    assert any(outputs["punctuated"]) and outputs["punctuated"] != outputs["transcript"]


def test_no_space_follows_a_mark(monkeypatch):
    following = tf.constant([["，", "", "", "", "。", ""], ["", "", "", "", "", ""]])
    monkeypatch.setattr(marking, "find_marks", lambda *_: following)
    names = [["hi", "<space>", "<space>", "y", "o", "<space>"], ["a", "<space>", "b", "", "", ""]]
    outputs = {"character": tf.constant(names), "start": tf.zeros([2, 6]), "end": tf.zeros([2, 6])}
    outputs = {f"characters.{name}": value for name, value in outputs.items()}
    found = marking.punctuate(object(), outputs)
    assert [text.decode() for text in found["punctuated"].numpy()] == ["hi，yo。", "a b"]


def test_texts_that_are_empty_too_long_or_not_utf_8_get_no_marks(export):
    _, loaded = export
    texts = ["你 好", "", "你 " * (marking.MAX_CHARACTERS + 1), b"\xff"]
    found, status = find_marks(loaded, texts, np.zeros([4, 2]))
    assert status == ["ok", "empty", "too_long", "malformed"]
    assert [any(row) for row in found[1:]] == [False] * 3
    assert find_marks(loaded, [], np.zeros([0, 0]))[1] == []


def test_pauses_beyond_the_text_are_ignored_and_missing_ones_are_zero(export):
    _, loaded = export
    long, _ = find_marks(loaded, ["你 好"], [[0.0, 0.0, 9.0]])
    short, _ = find_marks(loaded, ["你 好"], [[0.0]])
    assert long == short


def test_rules_for_numbers_are_read_from_the_export(export, tmp_path):
    _, loaded = export
    path = pathlib.Path(loaded.version_dir, "assets.extra", "written_form.json")
    assert path.read_bytes() == pathlib.Path(written_form.PATH).read_bytes()
    assert loaded.find_punctuate().form is loaded.form
    shutil.copytree(loaded.version_dir, tmp_path / "1")
    changed = tmp_path / "1" / "assets.extra" / "written_form.json"
    changed.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "rules": []}), "utf-8")
    other = dataclasses.replace(loaded, version_dir=str(tmp_path / "1"))
    assert [each.form.write("三十个") for each in (loaded, other)] == ["30个", "三十个"]
    old = dataclasses.replace(other, info=dataclasses.replace(loaded.info, files={}))
    assert old.form.write("三十个") == "30个"
    with pytest.raises(errors.UserError, match="written_form.json is damaged: .*; copy the export again"):
        recogniser.load_version(str(tmp_path / "1"))
    changed.write_text("{}", "utf-8")
    with pytest.raises(errors.UserError, match="was written by another release; export the model again"):
        dataclasses.replace(other).form  # noqa: B018


def test_an_export_without_the_model_has_no_marks(tiny_export):
    loaded = recogniser.load_version(tiny_export.version_dir)
    with contextlib.closing(loaded.session):
        assert "punctuate" not in loaded.definitions and loaded.info.punctuation is None
        assert "punctuated" not in loaded.definitions["waveform"].outputs
