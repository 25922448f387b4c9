"""The benchmark of the server: clips, requests to a server, memory, bars."""

from __future__ import annotations

import io
import os

import local_server
import numpy as np
import pytest
import soundfile

from benchmarks.serving import __main__ as serving
from benchmarks.serving import bare as serving_bare
from benchmarks.serving import clients as serving_clients
from benchmarks.serving import clips as serving_clips
from benchmarks.serving import process as serving_process
from tfrecord_builder import errors


@pytest.fixture(scope="module")
def audio_dir(tmp_path_factory):
    """Five files of 0.4 s; each has its number as samples, in 1/100."""
    path = tmp_path_factory.mktemp("audio")
    for number in range(5):
        soundfile.write(path / f"{number}.wav", np.full(6400, number / 100), 16000, subtype="PCM_16")
    return str(path)


def test_clips_are_files_joined_until_they_are_long_enough(audio_dir):
    clips = serving_clips.read(audio_dir, 0.75)
    assert [clip.seconds for clip in clips] == [0.8, 0.8]
    samples, rate = soundfile.read(io.BytesIO(clips[1].content))
    assert (rate, len(samples)) == (16000, 12800)
    np.testing.assert_allclose(samples[[0, -1]], [0.02, 0.03], atol=1e-4)


def test_too_little_audio(audio_dir):
    expected = f"{audio_dir}: has 2 s in WAV files, expected at least 3 s; pass another --audio_dir"
    with pytest.raises(errors.UserError) as caught:
        serving_clips.read(audio_dir, 3)
    assert str(caught.value) == expected


@pytest.mark.long
def test_clients_and_the_bare_model(tiny_export, audio_dir):
    clips = serving_clips.read(audio_dir, 0.8)
    with local_server.serve(tiny_export.export_dir) as server:
        address = ("127.0.0.1", server.port)
        texts = serving_clients.read_texts(address, clips)
        right = serving_clients.send(address, clips, texts, 3, 1.0)
        wrong = serving_clients.send(address, clips, ["other"] * len(clips), 1, 0.2)
    assert right.num_errors == 0
    assert len(right.request_seconds) >= 3
    assert 0 < right.percentile(50) <= right.percentile(99) <= right.seconds
    assert wrong.num_errors > 0
    assert wrong.percentile(99) == np.inf
    rates = serving_bare.time_sizes(tiny_export.export_dir, clips, (1, 2), 0.1)
    assert list(rates) == [1, 2]
    assert min(rates.values()) > 1


def test_growth_of_memory():
    """60 MB of warming up, then 2 MB in 10 s: with 50 requests per second 4 MB per 1,000."""
    memory = serving_process.Memory()
    memory.samples = [(second, 100 + 6.0 * second) for second in range(10)]
    memory.samples += [(second, 160 + 0.2 * (second - 10)) for second in range(10, 20)]
    assert memory.growth(50) == pytest.approx(4)
    assert (memory.first, memory.last) == (100, pytest.approx(161.8))


def test_resident_set_of_this_process():
    before = serving_process.read_resident_mb(os.getpid())
    ballast = np.ones(50_000_000, np.uint8)
    assert serving_process.read_resident_mb(os.getpid()) - before == pytest.approx(len(ballast) / 1e6, abs=10)


@pytest.mark.long
def test_a_server_that_does_not_start(tmp_path):
    with pytest.raises(
        errors.UserError, match=r"the server has ended with exit code 1, expected it to start"
    ):
        serving_process.Server(str(tmp_path))


def load(milliseconds, num_errors=0):
    return serving_clients.Load(np.array(milliseconds) / 1000, num_errors, 1.0)


def test_bars_take_the_throughput_that_is_nearer():
    serial, many = load([50] * 10), load([100] * 40, num_errors=1)
    found = serving.make_bars({1: 20.0, 16: 40.0}, serial, many, 0.5)
    assert [(bar.what, bar.value, bar.is_met) for bar in found] == [
        ("throughput, share of the bare SavedModel's", 1.0, True),
        ("p99, times p50", 1.0, True),
        ("errors", 1, False),
        ("growth of memory, MB per 1,000 requests", 0.5, True),
    ]
    found = serving.make_bars({16: 400.0}, serial, many, 2.0)
    assert (found[0].what, found[0].value) == ("throughput, times that of one client", 4.0)
    assert not found[0].is_met and not found[3].is_met
