"""Tests the check of recordings with an exported model: rejected recordings and refused models."""

import json
import pathlib

import pytest

from tfrecord_builder import errors
from tfrecord_builder.program import lazy_tensorflow as tf
from tfrecord_builder.synthesis import espeak, prompts, recogniser_check

PINYIN = ("jin1", "tian1", "tian1", "qi4", "hao3")


def export(directory, outputs=("status", "pinyin"), token_type="syllable"):
    """Saves a model that outputs the text in the WAV file, such as "ok:ni3 hao3", as status and pinyin."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        wav = tf.compat.v1.placeholder(tf.string, [None])
        parts = tf.compat.v1.string_split(wav, ":", skip_empty=False).values
        tensors = {name: parts[i::2] for i, name in enumerate(outputs)}
        tf.compat.v1.saved_model.simple_save(session, str(directory), {"wav_bytes": wav}, tensors)
    (directory / "assets.extra").mkdir()
    (directory / "assets.extra" / "export.json").write_text(json.dumps({"token_type": token_type}))


@pytest.fixture
def export_dir(tmp_path):
    export(tmp_path / "export" / "9", ("wrong", "names"))  # an older version
    export(tmp_path / "export" / "10")
    export(tmp_path / "export" / "9.old", ("wrong", "names"))
    return tmp_path / "export"


def find(export_dir, heard):
    """Returns the rows for a recording for which the model outputs `heard`."""
    prompt = prompts.Prompt("u1", "dev", espeak.make_voice("f1", 1), (("今天天气好",),), PINYIN, "今天天气好")
    path = pathlib.Path(prompt.recording(str(export_dir)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(heard)
    recognise = recogniser_check.load(str(export_dir))
    return recogniser_check.find_misread(recognise, [prompt], str(export_dir), max_error_rate=0.2)


def test_recordings_with_few_errors_are_kept(export_dir):
    assert find(export_dir, "ok:jin1 tian1 tian1 qi4 hao4") == []  # the error rate is 1/5


@pytest.mark.parametrize(
    "heard, reason",
    [
        ("ok:jin1 tian1 qi4 hao4", "error rate is 0.40: status ok, recognised jin1 tian1 qi4 hao4"),
        ("silent:", "error rate is 1.00: status silent, recognised "),
    ],
)
def test_recordings_with_many_errors_are_rejected(export_dir, heard, reason):
    assert find(export_dir, heard) == [("u1", "dev", reason, str(export_dir / "wav" / "f1" / "u1.wav"))]


def test_a_version_directory_can_be_passed(export_dir):
    recognise = recogniser_check.load(str(export_dir / "10"))
    assert [list(values) for values in recognise([b"ok:hao3"])] == [[b"ok"], [b"hao3"]]


def test_refuses_a_directory_without_a_model(tmp_path):
    with pytest.raises(errors.UserError, match=f"--check: {tmp_path} contains no SavedModel; pass a direc"):
        recogniser_check.load(str(tmp_path))


def test_refuses_a_damaged_model(export_dir):
    (export_dir / "10" / "saved_model.pb").write_bytes(b"damaged")
    with pytest.raises(errors.UserError, match=f"--check: {export_dir}/10 cannot be used .*, or export"):
        recogniser_check.load(str(export_dir))


def test_refuses_a_model_without_toned_syllables(export_dir):
    export(export_dir / "11", token_type="toneless")
    message = r"11 cannot be used \(ValueError: token type is toneless\)\. Pass an export of an ac"
    with pytest.raises(errors.UserError, match=message):
        recogniser_check.load(str(export_dir))


def test_refuses_a_model_with_other_outputs(export_dir):
    with pytest.raises(errors.UserError, match=r"cannot be used \(.*status.*\)\. Pass an export of an ac"):
        recogniser_check.load(str(export_dir / "9"))
