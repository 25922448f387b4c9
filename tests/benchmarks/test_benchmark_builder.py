"""The benchmark of the builder does the same work on both sides, and says what it found."""

import glob
import os
import subprocess
import sys

import numpy as np
import paths
import pytest
import soundfile

from benchmarks import bars
from benchmarks.builder import __main__ as builder
from benchmarks.builder import corpus as builder_corpus
from benchmarks.builder import loops as builder_loops
from benchmarks.builder import ours as builder_ours

pytestmark = pytest.mark.slow

ROOT = str(paths.ROOT)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    return builder_corpus.make_recordings(str(tmp_path_factory.mktemp("benchmark")), num_files=3)


def test_input_is_as_the_issue_has_it(recordings):
    assert sorted(recordings) == ["flac", "mp3", "wav"]
    for recording in recordings["wav"]:
        info = soundfile.info(recording.path)
        assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")
        assert 6 < info.duration == recording.seconds < 10
    for form in ("flac", "mp3"):
        assert [each.tokens for each in recordings[form]] == [each.tokens for each in recordings["wav"]]
        assert soundfile.info(recordings[form][0].path).format == form.upper()


def test_ours_and_peer_write_the_same_features_and_the_bound_as_many(recordings, tmp_path):
    ours = builder_ours.read_features(builder_ours.build_here(recordings["wav"], str(tmp_path)))
    peers = builder_ours.read_features(
        builder_loops.build_with_kaldi_native_fbank(recordings["wav"], str(tmp_path))
    )
    assert len(ours) == len(peers) == 3
    for our, peer in zip(ours, peers):
        np.testing.assert_allclose(our, peer, atol=0.02)  # a step of float16 at 16 to 32
    bound = builder_loops.decode_transform_write(recordings["wav"], str(tmp_path))
    assert os.path.getsize(bound) == sum(2 * each.size for each in ours)


def test_the_whole_programs_do_the_same_and_their_start_is_timed(recordings, tmp_path, capsys):
    cores = os.sched_getaffinity(0)
    config = builder.BenchmarkConfig(rounds=1, program_hours=0.01)
    try:
        (bar,) = builder.time_programs(recordings["wav"], config, str(tmp_path), min(cores))
    finally:
        os.sched_setaffinity(0, cores)
    assert (bar.what, bar.minimum) == ("WAV, times as fast as the peer, both with their start", 2.5)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("whole programs, 0.01 h of WAV: ours ")
    built = glob.glob(f"{tmp_path}/output/*.tfrecord")
    ours = [each for path in built for each in builder_ours.read_features(path)]
    peers = builder_ours.read_features(f"{tmp_path}/output.tfrecord")
    assert len(ours) == len(peers) >= 4
    assert sorted(map(len, ours)) == sorted(map(len, peers))


def test_memory_of_the_workers_is_seen(recordings, tmp_path):
    peak = builder_ours.build_with_workers(recordings["wav"], 4, str(tmp_path), num_workers=1)
    assert 100 << 20 < peak < 2 << 30  # TensorFlow alone takes more than 100 MiB
    assert len([name for name in os.listdir(tmp_path) if name.endswith(".tfrecord")]) == 4


def test_table_and_bars_of_the_loops(recordings, tmp_path, capsys):
    cores = os.sched_getaffinity(0)
    try:
        found = builder.time_loops(recordings, 2, str(tmp_path), min(cores))
    finally:
        os.sched_setaffinity(0, cores)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3 files, 2") and lines[0].endswith("2 rounds")
    assert [line.split()[:2] for line in lines[2:]] == [
        [loop, form] for form in ("wav", "flac", "mp3") for loop in ("ours", "peer", "bound")
    ]
    assert [(bar.minimum, bar.maximum) for bar in found] == [
        (4, np.inf),
        (1200, np.inf),
        (-np.inf, 1.5),
    ]


def test_bars_say_whether_they_are_met():
    assert str(bars.Bar("speed", 1234.5, minimum=1200)) == "PASS  speed: 1,234.50 (at least 1,200)"
    assert str(bars.Bar("memory", 601, maximum=600)) == "FAIL  memory: 601.00 (at most 600)"


def test_help_teaches():
    command = [sys.executable, "-m", "benchmarks.builder", "--help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    for words in ("--memory_hours=100", "nothing can do with less", "--rounds: times"):
        assert words in said


def test_one_core_is_refused():
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-m", "benchmarks.builder"]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert completed.returncode == 1
    expected = "error: benchmarks: this process has 1 core, expected 2; run it where there are two."
    assert completed.stderr.splitlines()[-1] == expected
