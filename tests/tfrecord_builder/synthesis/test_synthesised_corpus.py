"""Tests synthesised corpora: the directory, units of recordings, interruptions, processes that die."""

import json
import os
import pickle
import platform
import signal
import sys

import pytest

from tfrecord_builder import errors
from tfrecord_builder.building.engines import dispatch, local_engine, tasks
from tfrecord_builder.synthesis import espeak, prompts, synthesised_corpus, text_plan

ENGINE = espeak.EspeakEngine(seed=1)


def make_prompts(*ids, voice="f1"):
    (speaker,) = ENGINE.make_speakers([voice], 1)
    return [prompts.Prompt(name, "train", speaker, (("你好",),), ("ni3", "hao3"), "你好！") for name in ids]


def write(directory, planned, num_workers=1):
    with dispatch.connect(dispatch.LOCAL, num_workers) as run:
        synthesised_corpus.write_recordings(str(directory), planned, ENGINE, run)


def make_task(directory):
    """Returns a writer for the directory, a unit with one prompt, and a task that can run the unit."""
    (unit,) = synthesised_corpus._cut(make_prompts("a"), size=1)
    units_dir = directory / synthesised_corpus.UNITS_DIR
    units_dir.mkdir()
    writer = synthesised_corpus.PromptWriter(str(units_dir), str(directory), ENGINE, (ENGINE.library,))
    return writer, unit, tasks.make(writer, ())


@pytest.mark.long
def test_a_missing_recording_repeats_all_prompts_of_its_process(tmp_path, monkeypatch):
    monkeypatch.setattr(espeak.EspeakEngine, "prompts_per_process", 2)
    write(tmp_path, make_prompts(*"abc"), num_workers=None)
    paths = [tmp_path / "wav" / "f1" / f"{name}.wav" for name in "abc"]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    paths[1].unlink()
    write(tmp_path, make_prompts(*"abc"))
    after = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    assert [new[0] == old[0] for new, old in zip(after, before)] == [True] * 3
    assert [new[1] == old[1] for new, old in zip(after, before)] == [False, False, True]


@pytest.mark.long
def test_a_unit_lists_the_sizes_of_its_recordings(tmp_path, monkeypatch):
    monkeypatch.setattr(espeak.EspeakEngine, "prompts_per_process", 2)
    write(tmp_path, make_prompts(*"abc") + make_prompts("d", voice="m3"))
    names = ["f1.0", "f1.0.json", "f1.2", "f1.2.json", "m3.0", "m3.0.json"]
    assert sorted(os.listdir(tmp_path / ".units")) == names
    sizes = [(tmp_path / "wav" / "f1" / f"{name}.wav").stat().st_size for name in "ab"]
    assert json.loads((tmp_path / ".units" / "f1.0").read_text()) == sizes


@pytest.mark.long
@pytest.mark.parametrize("num_workers", [1, 2])
def test_recordings_do_not_depend_on_earlier_recordings_of_a_worker(tmp_path, num_workers):
    """Within one process, eSpeak NG sounds different after Klatt's synthesiser has been used."""
    write(tmp_path / "alone", make_prompts("a", voice="m3"))
    both = [make_prompts("b", voice="klatt4"), make_prompts("a", voice="m3"), make_prompts("c", voice="Lee")]
    write(tmp_path / "after", sum(both, []), num_workers)
    alone, after = (tmp_path / name / "wav" / "m3" / "a.wav" for name in ("alone", "after"))
    assert alone.read_bytes() == after.read_bytes()


def test_a_slash_in_an_utterance_id_makes_a_directory(tmp_path):
    write(tmp_path, make_prompts("news/text-train-2"))
    assert (tmp_path / "wav" / "f1" / "news" / "text-train-2.wav").is_file()


def test_temporary_files_of_a_killed_process_are_removed(tmp_path):
    left = tmp_path / "wav" / "f1" / "news" / "a.wav.4711.incomplete"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"RIFF")
    write(tmp_path, make_prompts("news/a"))
    assert [path.name for path in left.parent.iterdir()] == ["a.wav"]


def test_prints_number_and_length_of_the_recordings(tmp_path, capsys):
    write(tmp_path, make_prompts("a"))
    assert capsys.readouterr().out == f"{tmp_path}: 1 recordings, 0.0 minutes\n"
    path = tmp_path / "wav" / "f1" / "a.wav"
    with open(path, "ab") as file:
        file.truncate(44 + 90 * 2 * 16000)  # a minute and a half
    (tmp_path / ".units" / "f1.0").write_text(f"[{path.stat().st_size}]")
    receipt = json.loads((tmp_path / ".units" / "f1.0.json").read_text())
    receipt["num_bytes"] = (tmp_path / ".units" / "f1.0").stat().st_size
    (tmp_path / ".units" / "f1.0.json").write_text(json.dumps(receipt))
    write(tmp_path, make_prompts("a"))
    assert capsys.readouterr().out == f"{tmp_path}: 1 recordings, 1.5 minutes\n"


def test_a_process_that_dies_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    message = "the process that writes f1.0 ended with exit code 1; see its messages above, or use fewer work"
    with pytest.raises(errors.UserError, match=message):
        write(tmp_path, make_prompts("a"))
    assert list(tmp_path.rglob("*")) == [tmp_path / ".units"]


@pytest.mark.long
def test_the_units_of_a_worker_that_dies_run_again(monkeypatch, tmp_path, caplog):
    planned, killed = sum((make_prompts("a", voice=voice) for voice in ("f1", "m3", "Lee")), []), []
    write(tmp_path / "here", planned)
    start = local_engine.start_worker

    def start_and_kill_the_first():
        connection, process = start()
        if not killed:
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
        return connection, process

    monkeypatch.setattr(local_engine, "start_worker", start_and_kill_the_first)
    write(tmp_path / "there", planned, num_workers=2)
    assert "--runner=local: a worker was killed, probably because memory" in caplog.text
    assert "Retrying 1 units of work." in caplog.text
    for voice in ("f1", "m3", "Lee"):
        here, there = (tmp_path / name / "wav" / voice / "a.wav" for name in ("here", "there"))
        assert here.read_bytes() == there.read_bytes()


def test_a_worker_with_another_version_of_the_synthesiser_is_named(tmp_path, monkeypatch):
    _, unit, task = make_task(tmp_path)
    assert task.versions["espeakng-loader"] == "0.2.4"
    monkeypatch.setitem(task.versions, "espeakng-loader", "0.2.3")  # simulates the launcher's version
    outcome = task(pickle.dumps(unit))
    assert outcome.problem == (
        f"worker {platform.node()}: espeakng-loader is 0.2.4, expected 0.2.3 as on the machine that "
        "started the command; install that version on the worker."
    )


@pytest.mark.parametrize("content", [b"", b"RIFF"])  # a power failure may leave such a file
def test_a_damaged_recording_is_synthesised_again(tmp_path, content):
    write(tmp_path, make_prompts("a"))
    path = tmp_path / "wav" / "f1" / "a.wav"
    before = path.read_bytes()
    path.write_bytes(content)
    write(tmp_path, make_prompts("a"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("listed", ["", "[", "[1]"])
def test_a_damaged_unit_is_not_finished(tmp_path, listed):
    writer, unit, task = make_task(tmp_path)
    task(pickle.dumps(unit))
    assert writer.find_finished(unit).num_records == 1
    (tmp_path / ".units" / "f1.0").write_text(listed)
    assert writer.find_finished(unit) is None


def claim(directory, seed=1, pinyin=("ni3", "hao3"), text_dir="t"):
    config = text_plan.SynthesisConfig(text_dir=(text_dir,), tts="espeak", synthesis_seed=seed)
    planned = [prompts.Prompt("u1", "train", "speaker", (("你好",),), pinyin, "你好！")]
    with synthesised_corpus.claim(str(directory), config, planned, ENGINE):
        pass


def test_refuses_a_corpus_of_other_settings_or_sentences(tmp_path):
    for _ in range(2):
        claim(tmp_path)
    message = "was built from different settings, sentences, pinyin or voices: .*synthesis.json"
    for other in ({"seed": 2}, {"pinyin": ("ni3", "hao4")}):
        with pytest.raises(errors.UserError, match=f'{message} is .*"synthesis_seed": 1.*, expected .*; rem'):
            claim(tmp_path, **other)


def test_the_path_of_the_text_is_not_among_the_saved_settings(tmp_path):
    claim(tmp_path)
    claim(tmp_path, text_dir="moved/t")


def test_incomplete_saved_settings_are_refused(tmp_path):
    for content, shown in ((b"{}", "{}"), (b"\xff", "\ufffd")):
        (tmp_path / "synthesis.json").write_bytes(content)
        with pytest.raises(errors.UserError, match=f"synthesis.json is {shown}, expected {{ "):
            claim(tmp_path)


def test_refuses_a_directory_with_other_files(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    message = "contains files but no synthesis.json, so it is not a synthesised corpus; choose an empty or a"
    with pytest.raises(errors.UserError, match=message):
        claim(tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_the_output_directory_is_required():
    with pytest.raises(errors.UserError, match="--output_dir is missing; pass it"):
        synthesised_corpus.OutputConfig()
