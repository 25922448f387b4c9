"""outputs: what is written for a recording, and where."""

from __future__ import annotations

import json
import os

import pytest

from estimator_asr.transcripts import captions, outputs
from estimator_asr.transcripts.recordings import Recording
from tfrecord_builder import errors


def make_segment(start, text):
    character = {"character": text, "pinyin": "a1", "start": 0.5, "end": 0.54, "confidence": 0.9}
    result = {"transcript": text, "pinyin": "a1", "acoustic_score": -1.0, "language_score": -2.0}
    result.update(confidence=0.9, characters=[character], n_best=[{"transcript": text, "score": -3.0}])
    return captions.Segment(start, start + 2.0, result)


SHORT = outputs.Transcript("a.wav", [make_segment(0.0, "好")])
LONG = outputs.Transcript("a.wav", [make_segment(1.0, "你"), make_segment(40.0, "好")], is_cut=True)


def test_tsv():
    assert outputs.render(SHORT, "tsv") == "a.wav\t好\ta1\n"
    assert outputs.render(LONG, "tsv") == "a.wav\t你好\ta1 a1\n"


def test_json_of_a_short_recording_is_what_the_model_gave():
    assert json.loads(outputs.render(SHORT, "json")) == {"file": "a.wav", **SHORT.segments[0].result}


def test_json_of_a_long_recording_has_segments_and_times_from_its_start():
    found = json.loads(outputs.render(LONG, "json"))
    assert [item["start"] for item in found["characters"]] == [1.5, 40.5]
    assert found["segments"] == [
        {"start": 1.0, "end": 3.0, "transcript": "你", "confidence": 0.9},
        {"start": 40.0, "end": 42.0, "transcript": "好", "confidence": 0.9},
    ]


def test_json_of_a_long_recording_without_speech():
    found = json.loads(outputs.render(outputs.Transcript("a.wav", [], is_cut=True), "json"))
    assert found == {
        "file": "a.wav",
        "transcript": "",
        "pinyin": "",
        "confidence": 0.0,
        "characters": [],
        "n_best": [{"transcript": "", "score": 0.0}],
        "acoustic_score": 0.0,
        "language_score": 0.0,
        "status": "ok",
        "segments": [],
    }


def test_text_and_captions():
    assert outputs.render(LONG, "txt") == "你\n好\n"
    assert outputs.render(SHORT, "srt") == "1\n00:00:00,300 --> 00:00:01,300\n好\n\n"
    assert outputs.render(SHORT, "vtt") == "WEBVTT\n\n00:00:00.300 --> 00:00:01.300\n好\n\n"


def test_each_recording_has_its_own_file(tmp_path):
    found = [Recording("x/a.wav", "a"), Recording("y/sub/a.wav", "sub/a")]
    out = str(tmp_path)
    assert outputs.plan(found, "srt", out) == [f"{out}/a.srt", f"{out}/sub/a.srt"]


def test_recordings_of_one_folder_have_other_advice(tmp_path):
    with pytest.raises(errors.UserError, match="expected one; rename one of them$"):
        outputs.plan([Recording(path, "a") for path in ("x/a.wav", "x/a.flac")], "srt", str(tmp_path))


@pytest.mark.parametrize("name", ["x.srt/y", "x.srt/sub/y"])
def test_an_output_that_is_the_folder_of_another_is_refused(tmp_path, name):
    found = [Recording(f"in/{name}.wav", name), Recording("in/x.wav", "x")]
    with pytest.raises(errors.UserError) as refused:
        outputs.plan(found, "srt", str(tmp_path))
    assert str(refused.value) == (
        f"{tmp_path}/x.srt: is the output of in/x.wav and the folder of that of in/{name}.wav, expected one "
        "of them; rename the folder"
    )


def test_an_output_dir_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UserError) as refused:
        outputs.plan([Recording("a.wav", "a")], "srt", str(tmp_path / "file"))
    assert str(refused.value).startswith(f"--output_dir={tmp_path / 'file'}: cannot be made (")


def test_two_recordings_of_one_name_are_refused(tmp_path):
    found = [Recording("x/a.wav", "a"), Recording("y/a.mp3", "a")]
    said = r"a\.srt: is the output of x/a\.wav and of y/a\.mp3, expected one; rename a recording, or"
    with pytest.raises(errors.UserError, match=said):
        outputs.plan(found, "srt", str(tmp_path))


def test_an_output_that_exists_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("the transcript that somebody typed")
    with pytest.raises(errors.UserError, match=r"a\.txt: exists; move it, or give another --output_dir"):
        outputs.plan([Recording("a.wav", "a")], "txt", str(tmp_path))


def test_captions_of_several_recordings_need_a_directory():
    found = [Recording("a.wav", "a"), Recording("b.wav", "b")]
    said = "--format=srt: 2 recordings are given, expected one without --output_dir; give --output_dir"
    with pytest.raises(errors.UserError, match=said):
        outputs.check_standard_output(found, "srt")
    outputs.check_standard_output(found, "tsv")
    outputs.check_standard_output(found[:1], "srt")


def test_a_file_is_written_whole_into_a_directory_that_is_made(tmp_path):
    outputs.save(str(tmp_path / "out" / "sub" / "a.tsv"), "a\udcbb\t好\n")
    assert (tmp_path / "out" / "sub" / "a.tsv").read_text(encoding="utf-8") == "a\\udcbb\t好\n"
    assert os.listdir(tmp_path / "out" / "sub") == ["a.tsv"]
