"""The output files for the transcripts of recordings."""

import os

import pytest

from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors


def test_each_recording_has_its_own_file(tmp_path):
    inputs = [recordings.RecordingFile("x/a.wav", "a"), recordings.RecordingFile("y/sub/a.wav", "sub/a")]
    out = str(tmp_path)
    assert recordings.plan_outputs(inputs, "srt", out) == [f"{out}/a.srt", f"{out}/sub/a.srt"]


@pytest.mark.parametrize(
    "other, advice",
    [("x/a.flac", "one of them"), ("y/a.mp3", "a recording, or transcribe their common folder")],
)
def test_two_recordings_with_the_same_name_are_refused(tmp_path, other, advice):
    inputs = [recordings.RecordingFile(path, "a") for path in ("x/a.wav", other)]
    said = rf"a\.srt would be the output of both x/a\.wav and {other}; rename {advice}"
    with pytest.raises(errors.UserError, match=said):
        recordings.plan_outputs(inputs, "srt", str(tmp_path))


@pytest.mark.parametrize("name", ["x.srt/y", "x.srt/sub/y"])
def test_an_output_that_is_the_folder_of_another_is_refused(tmp_path, name):
    inputs = [recordings.RecordingFile(f"in/{name}.wav", name), recordings.RecordingFile("in/x.wav", "x")]
    with pytest.raises(errors.UserError) as refused:
        recordings.plan_outputs(inputs, "srt", str(tmp_path))
    assert str(refused.value) == (
        f"{tmp_path}/x.srt would be both the output of in/x.wav and the folder for the output of "
        f"in/{name}.wav; rename the folder of in/{name}.wav"
    )


def test_an_output_dir_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UserError) as refused:
        recordings.make_output_dir(str(tmp_path / "file"))
    assert str(refused.value).startswith(f"--output_dir={tmp_path / 'file'} cannot be created (")


def test_an_output_that_exists_is_refused_unless_an_earlier_run_wrote_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("its transcript")
    begun = {(str(tmp_path / "a.wav"), "a")}
    for path in ("a.wav", str(tmp_path / "a.wav")):
        recordings.plan_outputs([recordings.RecordingFile(path, "a")], "txt", str(tmp_path), begun)
    said = r"a\.txt already exists; move this file, or choose another --output_dir"
    for path, replaceable in (("a.wav", ()), ("other/a.wav", begun)):
        with pytest.raises(errors.UserError, match=said):
            recordings.plan_outputs([recordings.RecordingFile(path, "a")], "txt", str(tmp_path), replaceable)


def test_captions_of_several_recordings_need_a_directory():
    inputs = [recordings.RecordingFile("a.wav", "a"), recordings.RecordingFile("b.wav", "b")]
    said = "--format=srt can write only one transcript to standard output, but there are 2 recordings; pass"
    with pytest.raises(errors.UserError, match=said):
        recordings.check_standard_output(inputs, "srt")
    recordings.check_standard_output(inputs, "tsv")
    recordings.check_standard_output(inputs[:1], "srt")


def test_a_file_is_written_into_a_directory_that_is_created(tmp_path):
    recordings.save(str(tmp_path / "out" / "sub" / "a.tsv"), "a\udcbb\t好\n")
    assert (tmp_path / "out" / "sub" / "a.tsv").read_text(encoding="utf-8") == "a\\udcbb\t好\n"
    assert os.listdir(tmp_path / "out" / "sub") == ["a.tsv"]
