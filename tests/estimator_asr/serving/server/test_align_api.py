"""POST /v1/align: the times of characters, and the error messages."""

import io

import local_server
import numpy as np
import pytest
import soundfile

from estimator_asr.exporting.saved_model import recogniser


@pytest.fixture(scope="module")
def server(tiny_export):
    with local_server.serve(tiny_export.export_dir, max_audio_seconds=300.0) as started:
        yield started


@pytest.fixture(scope="module")
def waveform(tiny_export):
    return np.concatenate([each[-1] for each in tiny_export.utterances.values()])[:48000]


def align(server, waveform, **fields):
    file = io.BytesIO()
    soundfile.write(file, waveform, 16000, format="FLAC")
    return server.post("/v1/align", files={"file": ("a.flac", file.getvalue())}, data=fields)


def refuse(response, error: str) -> None:
    assert response.status_code == 400 and response.json()["error"]["message"].startswith(error)


@pytest.mark.long
def test_characters_have_the_times_of_the_graph(tiny_export, server, waveform):
    content = align(server, waveform, text="你是，吗[3]！").json()
    model = recogniser.load(tiny_export.version_dir, "align")
    tokens = np.array(["ni3 shi4 ma5"], object)
    batch = {"waveform": np.round(waveform * 32768)[None] / 32768, "num_samples": [len(waveform)]}
    (expected,) = model.run({**batch, "tokens": tokens})["tokens"]
    assert (content["status"], content["duration"]) == ("ok", 3.0)
    assert [item["character"] for item in content["characters"]] == ["你", "是", "吗"]
    for item, token in zip(content["characters"], expected):
        assert (item["token"], item["start"], item["end"]) == (token["token"], token["start"], token["end"])
        assert item["score"] == pytest.approx(token["score"], abs=1e-3) and item["score"] <= 0


def test_numbers_are_aligned_as_they_are_read(server, waveform):
    content = align(server, waveform, text="4个").json()
    assert [item["character"] for item in content["characters"]] == ["四", "个"]


def test_a_recording_with_pauses_is_aligned_as_a_whole(server, waveform):
    """The recording is longer than a segment, so the decoder removes its pauses."""
    long = np.concatenate([np.zeros(12 * 16000), waveform, np.zeros(3 * 16000)])
    content = align(server, np.float32(long), text="你好").json()
    assert content["duration"] == 18.0 and content["status"] in ("ok", "silent")
    assert all(0 <= item["start"] < item["end"] <= 18 for item in content["characters"])


def test_more_text_than_audio_has_no_times(server, waveform):
    content = align(server, waveform, text="你好" * 100).json()
    assert (content["status"], content["characters"]) == ("too_many_tokens", [])


def test_text_without_words_and_audio_that_is_too_long_are_refused(server, waveform):
    sentence = "the form has no words in its field text; send what is said"
    refuse(align(server, waveform), sentence)
    refuse(align(server, waveform, text="……"), sentence)
    noise = np.random.default_rng(1).normal(0, 0.1, 190 * 16000)
    sentence = "file: audio lasts 190 s, but text can be aligned with at most 180 s; send a part, or use"
    refuse(align(server, np.float32(noise), text="你好"), sentence)


def test_an_export_of_an_earlier_release_is_refused(server, waveform, monkeypatch):
    monkeypatch.delitem(server.parts.versions.current.definitions, "align")
    refuse(align(server, waveform, text="你好"), "the model was exported by an earlier release, which cannot")
