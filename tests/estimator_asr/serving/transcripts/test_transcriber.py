"""Transcribes recordings with a fake model, whose transcripts are the lengths of the segments."""

import io
import re
import sys

import numpy as np
import pytest
import soundfile
import tqdm

from estimator_asr.serving.transcripts import recordings, transcriber
from tfrecord_builder import errors

pytestmark = pytest.mark.usefixtures("loud_is_speech")


class Counter:
    """Stands in for a recogniser; the transcript of an item is its length in seconds."""

    def __init__(self):
        self.shapes = []

    def run(self, batch):
        assert batch["num_samples"].dtype == np.int32
        self.shapes.append(batch["waveform"].shape)
        texts = [f"{count / 16000:.1f}" for count in batch["num_samples"]]
        return {"transcript": texts, "characters": [[] for _ in texts], "status": ["ok"] * len(texts)}


def transcribe(path, waveform, show=lambda seconds, total: None, model=None):
    soundfile.write(path, waveform, 16000, subtype="FLOAT")
    return transcriber.transcribe(model or Counter(), *recordings.find([str(path)]), 16000, show)


def make_speech(*seconds):
    return np.concatenate(
        [np.full(int(16000 * s), 0 if i % 2 else 0.5, np.float32) for i, s in enumerate(seconds)]
    )


def test_a_short_recording_is_one_segment(tmp_path):
    made = transcribe(tmp_path / "a.wav", make_speech(2.0, 5.0))
    assert [(start, end, result["transcript"]) for start, end, result in made.segments] == [(0.0, 7.0, "7.0")]
    assert (made.path, made.is_cut) == (str(tmp_path / "a.wav"), False)


def test_a_long_recording_is_recognised_in_batches_of_segments(tmp_path):
    model, shown = Counter(), []
    made = transcribe(
        tmp_path / "a.wav", make_speech(*[4.0, 6.0] * 5), lambda *both: shown.append(both), model
    )
    assert made.is_cut
    assert [round(segment.start, 1) for segment in made.segments] == [0.0, 9.7, 19.7, 29.7, 39.7]
    assert [segment.result["transcript"] for segment in made.segments] == ["4.3", "4.6", "4.6", "4.6", "4.6"]
    assert [rows for rows, _ in model.shapes] == [5]
    assert [(round(seconds, 1), total) for seconds, total in shown][-2:] == [(44.3, 50.0), (50.0, 50.0)]


def test_a_padded_batch_has_30_seconds_at_most(tmp_path):
    model = Counter()
    transcribe(tmp_path / "a.wav", make_speech(*[4.0, 2.0] * 4, 14.0, 2.0, 4.0, 2.0, 4.0), model=model)
    assert sum(rows for rows, _ in model.shapes) == 7
    assert [rows for rows, _ in model.shapes] == [4, 2, 1]
    assert all(rows * samples <= 30 * 16000 for rows, samples in model.shapes)


def test_a_long_recording_without_speech_has_a_warning(tmp_path, capsys):
    made = transcribe(tmp_path / "a.wav", np.full(16000 * 31, 0.01, np.float32))
    assert (list(made.segments), made.is_cut) == ([], True)
    assert capsys.readouterr().err == (
        f"warning: {tmp_path}/a.wav: no speech was found; its transcript is empty\n"
    )


def test_a_long_silent_recording_has_a_warning(tmp_path, capsys):
    transcribe(tmp_path / "a.wav", np.zeros(16000 * 31, np.float32))
    assert "a.wav: audio is silent (peak below 0.0005 of full scale)" in capsys.readouterr().err


def test_warnings_go_to_the_function_of_the_caller(tmp_path, capsys):
    warnings = []
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 16000)
    recording = recordings.RecordingFile(str(tmp_path / "a.wav"), "a")
    transcriber.transcribe(Counter(), recording, 16000, warn=warnings.append)
    (warning,) = warnings
    assert warning.startswith(f"warning: {tmp_path}/a.wav: audio is silent (peak below 0.0005 of full scale)")
    assert capsys.readouterr().err == ""


def test_a_recording_that_was_cut_off_has_a_warning(tmp_path, capsys):
    path = tmp_path / "a.wav"
    soundfile.write(path, make_speech(2.0), 16000)
    content = path.read_bytes()
    path.write_bytes(content[:40] + bytes(4) + content[44:])
    (segment,) = transcriber.transcribe(Counter(), *recordings.find([str(path)]), 16000).segments
    assert segment.result["transcript"] == "2.0"
    sentence = "the header states 0 samples, but the file contains samples; all of them are read"
    assert capsys.readouterr().err == f"warning: {path}: {sentence}\n"


@pytest.mark.parametrize(
    "sample, problem",
    [
        (np.nan, " contains NaN or Inf samples; save the file again"),
        (3e29, ": the peak is 3e+29, but full scale is 1; save the file again"),
    ],
)
def test_a_sample_that_is_not_finite_or_far_too_loud_is_refused(tmp_path, sample, problem):
    waveform = make_speech(40.0)
    waveform[16000 * 35] = sample
    with pytest.raises(errors.UserError, match=re.escape(f"a.wav{problem}")):
        transcribe(tmp_path / "a.wav", waveform)


def test_progress_counts_seconds_of_all_recordings():
    with tqdm.tqdm(total=5, file=io.StringIO()) as bar:
        progress, shown = transcriber.RecordingProgress(bar), []
        for seconds in (1.0, 2.4, None, 2.4):
            progress.end_recording() if seconds is None else progress.show(seconds)
            shown.append(bar.n)
    assert shown == [1, 2, 2, 5]


def test_a_bar_counts_whole_seconds_of_all_recordings(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for name, seconds in (("a", 1.4), ("b", 2.4)):  # if each were rounded, the total would be 3
        soundfile.write(tmp_path / f"{name}.wav", make_speech(seconds), 16000)
    (tmp_path / "aa.wav").write_text("no audio")
    inputs = recordings.find([str(tmp_path)])
    list(transcriber.transcribe_all(Counter(), inputs, 16000, "work"))
    last = capsys.readouterr().err.split("\r")[-1]
    assert re.match(r"work: 100%\|.*\| 4/4 \[00:0\d<00:00, ", last), last


def test_recordings_that_cannot_be_read_have_an_error_and_no_transcript(tmp_path, capsys):
    soundfile.write(tmp_path / "b.wav", make_speech(2.0), 16000)
    (tmp_path / "a.wav").write_text("no audio")
    inputs = recordings.find([str(tmp_path)])
    nothing, made = transcriber.transcribe_all(Counter(), inputs, 16000, "x")
    assert (nothing, made.segments[0].end) == (None, 2.0)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {tmp_path}/a.wav: the file cannot be read as WAV")
