"""The benchmark of devices times the same recording in all formats, and judges what it has."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from benchmarks.devices import __main__ as devices
from benchmarks.devices import starts
from tfrecord_builder import errors

pytestmark = pytest.mark.slow

needs_converters = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("ai_edge_litert", "onnxruntime", "tf2onnx")),
    reason="the formats are not installed",
)
SIZES = {"seconds": 0.6, "rounds": 1, "starts": 1, "encoder_layers": 1, "encoder_units": 16}
NAMES = ["litert float32", "onnx float32", "litert int8", "onnx int8"]
WAVEFORM = np.random.default_rng(0).normal(0, 0.1, 9600).astype(np.float32)


class Peer:
    """Takes no time."""

    def recognise(self, waveform):
        return ""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return devices.make_or_find(devices.BenchmarkConfig(**SIZES), str(tmp_path_factory.mktemp("devices")))


@needs_converters
@pytest.mark.filterwarnings("default")  # PyTorch warns while it traces the peer
def test_all_formats_in_turns(exported, capsys):
    assert list(exported.formats) == NAMES
    peerless = devices.dataclasses.replace(exported, peer=None, why_no_peer="sherpa_onnx not installed")
    seconds = devices.time_sides(peerless, WAVEFORM, 16000, rounds=1)
    assert list(seconds) == ["SavedModel", *NAMES]
    assert all(len(taken) == 1 and taken[0] > 0 for taken in seconds.values())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "0.60 s of audio, one core, medians of 1 rounds"
    assert [line[:16].strip() for line in lines[2:]] == ["SavedModel", *NAMES, "sherpa-onnx"]
    assert lines[-1].endswith("sherpa_onnx not installed")
    sizes = [float(line.split()[-1]) for line in lines[2:-1]]
    assert sizes[3] < sizes[1] and sizes[4] < sizes[2]


@needs_converters
@pytest.mark.filterwarnings("default")
def test_the_peer_has_a_row_and_no_graph(exported, capsys):
    with_peer = devices.dataclasses.replace(exported, peer=Peer(), peer_mb=1.5)
    assert "sherpa-onnx" in devices.time_sides(with_peer, WAVEFORM, 16000, rounds=1)
    assert capsys.readouterr().out.splitlines()[-1].split()[::3] == ["sherpa-onnx", "1.50"]


@needs_converters
@pytest.mark.filterwarnings("default")
def test_a_version_is_timed_with_what_it_has(exported, tmp_path, capsys):
    export_dir = os.path.dirname(exported.version_dir)
    found = devices.make_or_find(devices.BenchmarkConfig(saved_model=export_dir), str(tmp_path))
    assert found.version_dir == exported.version_dir and list(found.formats) == NAMES[:2]
    assert not found.peer and os.listdir(tmp_path) == []
    path = str(tmp_path / "one.wav")
    devices.soundfile.write(path, WAVEFORM, 16000)
    runs = devices.time_starts(found, path, 1)
    assert list(runs) == NAMES[:2] and all(len(each) == 1 for each in runs.values())
    # Not what this process needs, which starts them.
    assert all(10 < each[0].peak_mb < 250 and each[0].seconds > 0 for each in runs.values())
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line[:16].strip() for line in lines] == [*NAMES[:2], "transcribe, once"]
    found_bars = devices.find_bars(
        {"SavedModel": [3.0], NAMES[0]: [1.0], NAMES[1]: [2.0]}, runs, found.formats
    )
    assert [bar.what.split(", ")[1] for bar in found_bars] == [
        "times as fast as the SavedModel",
        "seconds of a cold start",
        "MB of memory at its peak",
    ]


def test_a_version_without_formats_is_refused(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(errors.UserError, match="has no litert or onnx, .* --format=litert,onnx"):
        devices.make_or_find(devices.BenchmarkConfig(saved_model=str(tmp_path)), "")


def test_the_better_format_counts_and_the_worse_start(tmp_path):
    (tmp_path / "model.json").write_bytes(bytes(7_000_000))
    seconds = dict(zip(["SavedModel", *NAMES], ([1.0], [2.0], [0.5], [1.0], [0.4])))
    runs = {NAMES[0]: [starts.Start(0.5, 100), starts.Start(0.7, 300)], NAMES[1]: [starts.Start(0.9, 200)]}
    found = devices.find_bars(seconds, runs, dict.fromkeys(NAMES, str(tmp_path)))
    assert [str(bar) for bar in found] == [
        "PASS  onnx float32, times as fast as the SavedModel: 2.00 (at least 1)",
        "PASS  onnx int8, times as fast as the SavedModel: 2.50 (at least 1.5)",
        "PASS  litert int8, times as fast as its float32: 2.00 (at least 1.5)",
        "PASS  onnx float32, seconds of a cold start: 0.90 (at most 1)",
        "FAIL  litert float32, MB of memory at its peak: 300.00 (at most 250)",
        "FAIL  onnx int8, MB of files: 7.00 (at most 6)",
    ]


def test_all_of_a_program_s_run_counts_and_its_memory_alone():
    run = starts.measure("timeit", "-n1", "-r1", "import time; time.sleep(0.5)")
    assert run.seconds > 0.5 and 1 < run.peak_mb < 64  # this process holds TensorFlow


def test_a_program_that_fails_is_named():
    with pytest.raises(errors.UserError, match="estimator_asr_runtime exited with 1 .*model.json"):
        starts.measure("estimator_asr_runtime", "--model=/nowhere", "one.wav")


def test_the_audio_is_that_of_a_file_or_noise(tmp_path):
    path = str(tmp_path / "one.wav")
    devices.soundfile.write(path, WAVEFORM, 16000)
    config = devices.BenchmarkConfig(audio=path, seconds=0.5)
    assert devices.read_or_make(config, 16000).shape == (8000,)
    assert devices.read_or_make(devices.BenchmarkConfig(seconds=0.25), 16000).shape == (4000,)
