"""python -m estimator_asr.pseudo_label with a real export, and with invented transcripts."""

import json
import os
import types

import programs
import pytest
import soundfile

from estimator_asr import pseudo_label
from estimator_asr.exporting.saved_model import export_info, recogniser
from estimator_asr.scoring import utterances
from estimator_asr.serving import recording_units
from estimator_asr.serving.transcripts import captions, transcriber
from tfrecord_builder import errors
from tfrecord_builder.corpora import tables
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import locks

OUTPUTS = {"transcript": "你好", "pinyin": "ni3 hao3", "greedy_pinyin": "ni3 hao3", "confidence": 0.95}
EXPECTED = "expected syllable and 16000 Hz; export another model"
HEARD = {
    "a.wav": [(0.0, 2.5, OUTPUTS)],
    "b.wav": [(0.0, 1.0, {**OUTPUTS, "greedy_pinyin": "ni3"})],
    "c.wav": [(0.0, 1.0, {**OUTPUTS, "confidence": 0.5})],
    "long.mp3": [(1.5, 4.0, OUTPUTS), (70.25, 72.0, {**OUTPUTS, "transcript": "泥好"})],
    "quiet.wav": [],
}


def run(config_of, **flags):
    return pseudo_label.main(pseudo_label.PseudoLabelConfig(**{**config_of, **flags}))


def read_table(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def make_version(path, token_type="syllable", sample_rate=16000, outputs=OUTPUTS):
    info = types.SimpleNamespace(
        sha256=f"hash of {path}",
        token_type=token_type,
        frontend=types.SimpleNamespace(sample_rate=sample_rate),
    )
    model = types.SimpleNamespace(outputs=outputs)
    return types.SimpleNamespace(version_dir=path, info=info, find=lambda signature: model)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Flags for a folder with the recordings in HEARD, and the names of the transcribed recordings."""
    transcribed = []

    def transcribe(model, recording, sample_rate, show_seconds, warn):
        name = os.path.basename(recording.path)
        transcribed.append(name)
        if name not in HEARD:
            raise errors.UserError(f"{recording.path}: is broken")
        return captions.Transcript(
            recording.path, [captions.TranscriptSegment(*each) for each in HEARD[name]]
        )

    (tmp_path / "audio" / "sub").mkdir(parents=True)
    for name in HEARD:
        (tmp_path / "audio" / ("sub" if name == "long.mp3" else ".") / name).touch()
    monkeypatch.setattr(transcriber, "transcribe", transcribe)
    monkeypatch.setattr(recogniser, "find_version", lambda path: path)
    monkeypatch.setattr(recogniser, "load_version", make_version)
    monkeypatch.setattr(export_info, "load", lambda path: make_version(path).info)
    recording_units.load_export.cache_clear()
    flags = {"saved_model": "E/1", "audio_dir": str(tmp_path / "audio"), "output_dir": str(tmp_path / "out")}
    return types.SimpleNamespace(flags=flags, transcribed=transcribed, out=tmp_path / "out", path=tmp_path)


@pytest.mark.long
def test_a_real_export_labels_recordings(tiny_export, tmp_path, monkeypatch, capsys):
    """The confidences of the untrained model are low, so the limits keep everything."""
    waveform = tiny_export.utterances["u3"][-1]
    (tmp_path / "audio").mkdir()
    soundfile.write(tmp_path / "audio" / "u3.wav", waveform, 16000, subtype="PCM_16")
    (tmp_path / "audio" / "text.wav").write_text("no audio")
    directories = {"audio_dir": str(tmp_path / "audio"), "output_dir": str(tmp_path / "out")}
    flags = {"saved_model": tiny_export.export_dir, **directories}
    version = recogniser.load_version(tiny_export.version_dir)
    monkeypatch.setattr(recogniser, "load_version", {tiny_export.version_dir: version}.get)  # loads only once
    assert run(flags, max_disagreement=99.0, min_confidence=0.0) == 1
    expected = version.find("waveform").run({"waveform": waveform[None], "num_samples": [len(waveform)]})
    (utterance,) = tables.list_manifest(str(tmp_path / "out"))
    assert (utterance.text, utterance.pinyin) == (expected["transcript"][0], expected["pinyin"][0])
    assert utterance.audio == os.path.join(tmp_path, "out", "..", "audio", "u3.wav")
    assert utterance.split == "train" and utterance.seconds == round(len(waveform) / 16000, 3)
    header, (name, *_, problem) = read_table(tmp_path / "out" / "rejected.tsv")
    assert name == "text.wav-00000000" and "text.wav: the file cannot be read as WAV" in problem
    assert f"error: {problem}" in capsys.readouterr().err


@pytest.fixture
def real(tiny_export, tmp_path):
    """Flags for 60 recordings and a file that is not audio, with limits that keep everything."""
    (tmp_path / "audio").mkdir()
    for number in range(60):
        waveform = tiny_export.utterances[f"u{number % 3 + 1}"][-1]
        soundfile.write(tmp_path / "audio" / f"{number}.wav", waveform, 16000, subtype="PCM_16")
    (tmp_path / "audio" / "text.wav").write_text("no audio")
    flags = {"saved_model": tiny_export.export_dir, "audio_dir": str(tmp_path / "audio")}
    return {**flags, "max_disagreement": 99.0, "min_confidence": 0.0}


def read_results(directory):
    return [(directory / name).read_bytes() for name in ("manifest.tsv", "rejected.tsv")]


@pytest.mark.long
def test_workers_write_the_same_bytes(real, tmp_path, capfd):
    assert run(real, output_dir=str(tmp_path / "here")) == 1
    assert capfd.readouterr().err.count("text.wav: the file cannot be read as WAV") == 1
    assert run(real, output_dir=str(tmp_path / "workers"), num_workers=2) == 1
    assert capfd.readouterr().err.count("text.wav: the file cannot be read as WAV") == 1
    assert read_results(tmp_path / "workers") == read_results(tmp_path / "here")
    assert len(list(tables.list_manifest(str(tmp_path / "here")))) == 40  # the other 20 contain <unk>


@pytest.mark.long
def test_a_killed_run_continues_without_transcribing_anything_again(real, tmp_path, monkeypatch):
    assert run(real, output_dir=str(tmp_path / "expected")) == 1
    flags = [f"--{name}={value}" for name, value in {**real, "output_dir": tmp_path / "out"}.items()]
    process = programs.start("estimator_asr.pseudo_label", *flags, outputs=[os.devnull, os.devnull])
    state = tmp_path / "out" / ".pseudo_label"
    programs.wait_until(lambda: len(list(state.glob("*/*.jsonl"))) >= 5)
    process.kill()
    process.join()
    finished = "".join(path.read_text() for path in state.glob("*/*.jsonl"))
    names = {path.name for path in (tmp_path / "audio").iterdir() if f"/{path.name}" in finished}
    assert 5 <= len(names) < 60
    transcribed, transcribe = [], transcriber.transcribe

    def note(model, recording, *others, **options):
        transcribed.append(os.path.basename(recording.path))
        return transcribe(model, recording, *others, **options)

    monkeypatch.setattr(transcriber, "transcribe", note)
    assert run(real, output_dir=str(tmp_path / "out")) == 1
    assert read_results(tmp_path / "out") == read_results(tmp_path / "expected")
    assert names.isdisjoint(transcribed)
    assert names.union(transcribed) == set(os.listdir(tmp_path / "audio"))


def test_trusted_utterances_become_a_corpus(made, capsys):
    assert run(made.flags) == 0
    audio = os.path.join(made.out, "..", "audio", "")
    assert list(tables.list_manifest(str(made.out))) == [
        manifest.Utterance("a.wav-00000000", f"{audio}a.wav", "", "你好", "ni3 hao3", "train", 0.0, 2.5),
        *(
            manifest.Utterance(name, f"{audio}sub/long.mp3", "", text, "ni3 hao3", "train", start, seconds)
            for name, text, start, seconds in (
                ("sub/long.mp3-00001500", "你好", 1.5, 2.5),
                ("sub/long.mp3-00070250", "泥好", 70.25, 1.75),
            )
        ),
    ]
    folder = made.flags["audio_dir"]
    assert read_table(made.out / "rejected.tsv") == [
        ["id", "audio", "start", "seconds", "confidence", "disagreement", "problem"],
        ["b.wav-00000000", f"{folder}/b.wav", "0.0", "1.0", "0.95", "0.5", "decodings disagree"],
        ["c.wav-00000000", f"{folder}/c.wav", "0.0", "1.0", "0.5", "0.0", "confidence is too low"],
        ["quiet.wav-00000000", f"{folder}/quiet.wav", "0.0", "0.0", "0.0", "0.0", "nothing was recognised"],
    ]
    assert capsys.readouterr().out == f"kept 3 of 6 utterances, 0.00 of 0.00 hours: {made.out}/manifest.tsv\n"


def test_without_a_language_model_there_is_no_text(made, monkeypatch):
    monkeypatch.setitem(HEARD, "a.wav", [(0.0, 2.5, {**OUTPUTS, "transcript": "ni3 hao3"})])
    run(made.flags)
    first = next(tables.list_manifest(str(made.out)))
    assert (first.text, first.pinyin) == ("", "ni3 hao3")


def test_a_run_with_other_limits_filters_again_without_transcribing(made, monkeypatch):
    (made.path / "audio" / "broken.wav").touch()
    assert run(made.flags) == 1
    first = (made.out / "manifest.tsv").read_text()
    assert "broken.wav: is broken" in (made.out / "rejected.tsv").read_text()
    made.transcribed.clear()
    assert run(made.flags) == 1
    assert made.transcribed == ["broken.wav"]
    assert (made.out / "manifest.tsv").read_text() == first
    run(made.flags, max_disagreement=0.5, min_confidence=0.5)
    assert len(list(tables.list_manifest(str(made.out)))) == 5


def test_another_teacher_transcribes_again_and_results_of_the_first_are_kept(made):
    run(made.flags)
    first = (made.out / "manifest.tsv").read_text()
    names = sorted(made.transcribed)
    made.transcribed.clear()
    run(made.flags, saved_model="E/2")
    assert sorted(made.transcribed) == names
    made.transcribed.clear()
    run(made.flags)
    assert (made.transcribed, (made.out / "manifest.tsv").read_text()) == ([], first)


def test_a_directory_of_other_files_is_refused(made):
    made.out.mkdir()
    (made.out / "manifest.tsv").write_text("a corpus that somebody made")
    problem = "out contains manifest.tsv, but was not written by this version of pseudo_label"
    wanted = f"{problem}; choose another --output_dir"
    with pytest.raises(errors.UserError, match=wanted):
        run(made.flags)
    assert os.listdir(made.out) == ["manifest.tsv"]


def test_one_run_at_a_time(made):
    made.out.mkdir()
    wanted = f"^--output_dir: another pseudo_label is writing to {made.out}; wait until it ends$"
    with locks.exclusive(str(made.out), "busy"), pytest.raises(errors.UserError, match=wanted):
        run(made.flags)
    assert made.transcribed == []


def test_a_path_that_a_manifest_cannot_hold_is_rejected(made, monkeypatch):
    for name in ("a\tb.wav", os.fsdecode("好.wav".encode("gbk"))):
        (made.path / "audio" / name).touch()
        monkeypatch.setitem(HEARD, name, HEARD["a.wav"])
    run(made.flags)
    assert [row[-1] for row in read_table(made.out / "rejected.tsv")[1:]].count(
        "path contains a tab, a line break or bytes that are not UTF-8"
    ) == 2
    assert len(list(tables.list_manifest(str(made.out)))) == 3


@pytest.mark.parametrize(
    "flags, problem",
    [
        ({"max_error_rate": 0.1}, "max_error_rate=0.1 has no effect, because --report_dir is not set; pass"),
        (
            {"min_confidence": 0.8, "report_dir": "REPORT"},
            "min_confidence=0.8 has no effect, because --report_dir is set; omit it, or omit --min_conf",
        ),
        ({"audio_dir": "/missing"}, "audio_dir=/missing is not a directory; pass a folder of recordings"),
    ],
)
def test_invalid_flags_are_refused(made, flags, problem):
    with pytest.raises(errors.UserError, match=f"--{problem}"):
        run(made.flags, **flags)
    assert not made.out.exists()


@pytest.mark.parametrize(
    "second, problem",
    [
        ({"token_type": "bpe"}, f": token type is bpe and sample rate is 16000 Hz, {EXPECTED}"),
        ({"sample_rate": 8000}, f": token type is syllable and sample rate is 8000 Hz, {EXPECTED}"),
        ({"outputs": {}}, " has no output greedy_pinyin, so it was exported by an earlier release; export"),
    ],
)
def test_a_second_teacher_that_does_not_fit_is_refused(made, monkeypatch, second, problem):
    make = lambda path: make_version(path, **second if path == "2" else {})  # noqa: E731
    monkeypatch.setattr(recogniser, "load_version", make)
    monkeypatch.setattr(export_info, "load", lambda path: make(path).info)
    with pytest.raises(errors.UserError, match=f"2{problem}"):
        run(made.flags, second_saved_model="2")


def write_report(path, confidences_and_references, model="E/1"):
    rows = [
        {
            **{"utterance_id": f"u{i}", "speaker": "s", **OUTPUTS, "confidence": confidence},
            "scored": {utterances.TOKEN_ERROR_RATE: [reference, OUTPUTS["pinyin"]]},
        }
        for i, (confidence, reference) in enumerate(confidences_and_references)
    ]
    path.mkdir()
    (path / "hypotheses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "metrics.json").write_text(json.dumps({"model": model}))
    return str(path)


def test_the_minimum_confidence_is_chosen_on_dev(made, capsys):
    right, wrong = "ni3 hao3", "ni2 hao2"
    report_dir = write_report(
        made.path / "report", [(0.97, right), (0.95, right), (0.45, wrong), (0.3, wrong)]
    )
    run(made.flags, report_dir=report_dir, max_error_rate=0.05)
    lines = capsys.readouterr().out.splitlines()
    assert "chosen minimum confidence: 0.5" in lines
    assert lines[:2] == [
        "minimum confidence 0 keeps 100.0% of the dev utterances; 50.00% of their tokens are wrong",
        "minimum confidence 0.5 keeps 50.0% of the dev utterances; 0.00% of their tokens are wrong",
    ]
    assert (made.out / "confidence.png").exists()
    assert len(list(tables.list_manifest(str(made.out)))) == 4  # the confidence of c.wav is 0.5


@pytest.mark.parametrize(
    "model, problem",
    [
        ("E/1", "at least 100.00% at every minimum confidence .limit: 5.00%.; set a larger --max"),
        ("E/7", "report is a report on E/7, not on E/1; evaluate the teacher's export"),
    ],
)
def test_a_report_with_too_many_errors_or_on_another_model_is_refused(made, model, problem):
    report_dir = write_report(made.path / "report", [(0.97, "hao3")], model)
    with pytest.raises(errors.UserError, match=problem):
        run(made.flags, report_dir=report_dir)


@pytest.mark.parametrize(
    "name, content, problem",
    [
        ("metrics.json", None, "metrics.json cannot be read .*; run evaluate again"),
        ("metrics.json", "[]", "metrics.json cannot be read .*; run evaluate again"),
        ("metrics.json", '{"model": null}', "metrics.json cannot be read .TypeError.*; run evaluate again"),
        (
            "hypotheses.jsonl",  # from an export by an earlier release
            '{"utterance_id": "u", "speaker": "s", "pinyin": "", "scored": {"token_error_rate": ["", ""]}}',
            r"the report does not contain all values for each utterance \(token error rate, "
            r"confidence, greedy_pinyin, pinyin, transcript\); ",
        ),
        (
            "hypotheses.jsonl",
            '{"utterance_id": "u", "speaker": "s", "scored": {"character_error_rate": ["a", "a"]}}',
            "the report does not contain all values for each utterance .*; evaluate the teacher again, on",
        ),
    ],
)
def test_an_incomplete_report_is_refused(made, name, content, problem):
    report_dir = write_report(made.path / "report", [(0.97, "ni3 hao3")])
    (made.path / "report" / name).unlink()
    if content:
        (made.path / "report" / name).write_text(content)
    with pytest.raises(errors.UserError, match=f"--report_dir={report_dir}: {problem}"):
        run(made.flags, report_dir=report_dir)
