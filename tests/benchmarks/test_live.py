"""The benchmark of live transcripts: what it counts, and against a server with a tiny export."""

from __future__ import annotations

import asyncio
import io

import local_server
import numpy as np
import pytest
import soundfile

from benchmarks import live
from benchmarks.serving import clips as serving_clips
from estimator_asr.serving.transcripts import pauses
from tfrecord_builder import errors


def make_message(stable, partial, first, ends):
    characters = [
        {"character": character, "end": end} for character, end in zip((stable + partial)[first:], ends)
    ]
    settled = {"num_stable": len(stable), "first": first, "characters": characters}
    return {"type": "partial", "stable": stable, "partial": partial, **settled}


@pytest.fixture
def spoken():
    return live.Spoken(
        [
            (1.0, make_message("", "你好", 0, [0.4, 0.8])),
            (1.5, make_message("你", "好", 0, [0.4, 0.8])),
            (2.0, make_message("你好", "", 1, [0.8])),
            (2.5, {"type": "final", "text": "你好", "characters": [{"character": "你", "end": 0.4}]}),
        ],
        2.2,
    )


def test_delays_are_those_of_settled_characters(spoken):
    assert spoken.list_delays() == pytest.approx([1.1, 1.2])


@pytest.mark.parametrize(
    "stable, text, changes", [("你好", "你好", 0), ("你号", "你好", 1), ("您好", "您好", 1)]
)
def test_changes_of_settled_text_are_counted(spoken, stable, text, changes):
    messages = spoken.messages[:2] + [
        (2.0, make_message(stable, "", 1, [0.8])),
        (2.5, {**spoken.final, "text": text}),
    ]
    assert live.Spoken(messages, 2.2).count_changes() == changes


def test_a_stream_that_failed(spoken):
    failed = live.Spoken([(1.0, {"type": "error", "error": {"message": "stream: is full"}})], 2.2)
    with pytest.raises(errors.UserError, match="/v1/stream: stream: is full"):
        failed.count_changes()


def test_bars_of_what_was_found(spoken, capsys):
    assert live.show([(0, spoken)], ["你好"]) == 0
    assert live.show([(0, spoken), (1, spoken)], ["你好", "您好"]) == 1
    output = capsys.readouterr().out
    assert "2 characters, late by: 50 % 1.15 s" in output
    assert "FAIL  agreement with uploads, %: 75.00 (at least 99)" in output


@pytest.mark.long
def test_clients_speak_in_real_time(tiny_export, tmp_path, monkeypatch):
    loud = lambda samples: float(np.max(np.abs(samples)) > 0.02)  # noqa: E731
    monkeypatch.setattr(pauses, "load_detector", lambda: loud)
    file = io.BytesIO()
    soundfile.write(file, np.resize(tiny_export.utterances["u1"][-1], 32000), 16000, format="WAV")
    clips = [serving_clips.Clip(file.getvalue(), 2.0)]
    with local_server.serve(tiny_export.export_dir) as server:
        texts = live.read_texts(server.url("/v1/audio/transcriptions"), clips)
        url = f"ws://127.0.0.1:{server.port}/v1/stream"
        found = asyncio.run(live.speak_all(url, clips, 2, 1.5))
    assert [index for index, _ in found] == [0, 0]
    for _, spoken in found:
        assert spoken.final["text"] and spoken.messages[-1][0] >= 2.0 and spoken.count_changes() == 0
    assert texts[0]
    live.draw(found[0][1], str(tmp_path / "settling.png"))
    assert (tmp_path / "settling.png").stat().st_size > 5000
