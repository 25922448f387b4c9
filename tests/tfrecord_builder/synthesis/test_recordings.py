"""Recordings of prompts: batches, interruptions, processes that die."""

from __future__ import annotations

import sys

import pytest

from tfrecord_builder import errors
from tfrecord_builder.synthesis import espeak, prompts, recordings

ENGINE = espeak.Engine(seed=1)


def make_prompts(*ids):
    (speaker,) = ENGINE.make_speakers(["f1"], 1)
    return [prompts.Prompt(name, "train", speaker, (("你好",),), ("ni3", "hao3")) for name in ids]


def test_prompts_are_spoken_again_with_those_of_their_process(tmp_path, monkeypatch):
    monkeypatch.setattr(espeak.Engine, "prompts_per_process", 2)
    recordings.write_recordings(str(tmp_path), make_prompts(*"abc"), ENGINE, num_workers=None)
    paths = [tmp_path / "wav" / "f1" / f"{name}.wav" for name in "abc"]
    before = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    paths[1].unlink()
    recordings.write_recordings(str(tmp_path), make_prompts(*"abc"), ENGINE, num_workers=1)
    after = [(path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    assert [new[0] == old[0] for new, old in zip(after, before)] == [True] * 3
    assert [new[1] == old[1] for new, old in zip(after, before)] == [False, False, True]


def test_an_id_of_a_directory_and_a_name_is_a_path(tmp_path):
    recordings.write_recordings(str(tmp_path), make_prompts("news/text-train-2"), ENGINE, num_workers=1)
    assert (tmp_path / "wav" / "f1" / "news" / "text-train-2.wav").is_file()


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = tmp_path / "wav" / "f1" / "news" / "a.wav.4711.incomplete"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"RIFF")
    recordings.write_recordings(str(tmp_path), make_prompts("news/a"), ENGINE, num_workers=1)
    assert [path.name for path in left.parent.iterdir()] == ["a.wav"]


def test_says_how_much_there_is(tmp_path, capsys):
    recordings.write_recordings(str(tmp_path), make_prompts("a"), ENGINE, num_workers=1)
    assert capsys.readouterr().out == f"{tmp_path}: 1 recordings, 0.0 minutes\n"


def test_a_process_that_dies_is_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr(recordings, "_speak", sys.exit)  # called with five arguments: ends with code 1
    with pytest.raises(
        errors.UserError, match="a speaker's process ended with exit code 1; see above, or pass"
    ):
        recordings.write_recordings(str(tmp_path), make_prompts("a"), ENGINE, num_workers=1)


def test_a_damaged_recording_is_named(tmp_path):
    path = tmp_path / "wav" / "f1" / "a.wav"
    path.parent.mkdir(parents=True)
    path.touch()  # as a power failure may leave it
    with pytest.raises(errors.UserError, match=f"{path}: is not a WAV file .*; remove it and run the same"):
        recordings.write_recordings(str(tmp_path), make_prompts("a"), ENGINE, num_workers=1)
