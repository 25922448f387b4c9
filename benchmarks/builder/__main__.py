"""Times the builder beside kaldi-native-fbank with tf.io.TFRecordWriter, and prints ratios.

    python -m benchmarks.builder
    python -m benchmarks.builder --num_files=100 --rounds=9 --memory_hours=100

The benchmark synthesises its own input (16 kHz, 16 bits, about 8 s per file), and reads it once before
timing, so that the speed of the disk does not matter. On one pinned core, it times in turns:

    ours      the whole build: read, decode, log-mel, serialise, write, statistics, checksum
    peer      the same features with soundfile, kaldi-native-fbank, tf.train.Example and tf.io.TFRecordWriter
    bound     the minimum for any builder: decode, an FFT of prepared frames, write as many bytes

Then it times, in turns, the whole programs with their start-up, `build` and the peer's, on a corpus of
--program_hours. Finally, it compares one worker on one core with two workers on two cores, with and without
the start-up of the processes, and measures a worker's peak memory for one hour and for --memory_hours of
input. A missed bar is marked FAIL, and the exit code is then 1. Times are medians over the rounds, and ratios
are medians of the rounds' ratios.
"""

from __future__ import annotations

import os

# These variables must be set before NumPy and TensorFlow load, here and in the workers.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = "1"

import dataclasses
import functools
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence

from benchmarks import bars, comparison, machine
from benchmarks.builder import corpus as builder_corpus
from benchmarks.builder import loops
from benchmarks.builder import ours as builder_ours
from benchmarks.builder import programs as builder_programs
from tfrecord_builder.program import config_flags, program

LOOPS = {
    "ours": builder_ours.build_here,
    "peer": loops.build_with_kaldi_native_fbank,
    "bound": loops.decode_transform_write,
}
_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The amounts of data to time."""

    num_files: int = config_flags.setting(40, "number of recordings of about 8 s", minimum=2)
    rounds: int = config_flags.setting(5, "number of rounds that are timed", minimum=1)
    program_hours: float = config_flags.setting(
        1.6, "hours of input for the whole programs, copied from the recordings", positive=True
    )
    worker_hours: float = config_flags.setting(
        8.0, "hours of input for the workers, made by repeating the recordings", positive=True
    )
    memory_hours: float = config_flags.setting(
        16.0, "hours of input whose memory is compared with that of --worker_hours", positive=True
    )


def main(config: BenchmarkConfig) -> int:
    """Prints the tables and the bars; returns 1 if a bar is missed."""
    machine.check_cores()
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as directory:
        recordings = builder_corpus.make_recordings(directory, config.num_files)
        found = time_loops(recordings, config.rounds, directory, cores[0])
        found += time_programs(recordings["wav"], config, directory, cores[0])
        found += time_workers(recordings["wav"], config, cores)
    return bars.show(found)


def time_loops(
    recordings: Mapping[str, Sequence[builder_corpus.SpokenFile]], rounds: int, directory: str, core: int
) -> list[bars.Bar]:
    """Times all LOOPS with each format on one core, and prints the table."""
    os.sched_setaffinity(0, {core})
    loops = {
        (name, form): functools.partial(run, recordings[form], directory)
        for form in recordings
        for name, run in LOOPS.items()
    }
    seconds = comparison.time_in_turns(loops, rounds)
    audio_seconds = sum(recording.seconds for recording in recordings["wav"])
    print(f"{len(recordings['wav'])} files, {audio_seconds:.0f} s of speech, core {core}, {rounds} rounds")
    _print_table(seconds, audio_seconds)
    ours = seconds["ours", "wav"]
    return [
        bars.Bar("WAV, times as fast as the peer", bars.ratio(seconds["peer", "wav"], ours), minimum=4),
        bars.Bar("WAV, times real time", audio_seconds / statistics.median(ours), minimum=1200),
        bars.Bar("WAV, times what the bound takes", bars.ratio(ours, seconds["bound", "wav"]), maximum=1.5),
    ]


def time_programs(
    recordings: Sequence[builder_corpus.SpokenFile], config: BenchmarkConfig, directory: str, core: int
) -> list[bars.Bar]:
    """Times our whole program and the peer's in turns on one core, including start-up, and prints both."""
    os.sched_setaffinity(0, {core})
    corpus_dir, output = os.path.join(directory, "corpus"), os.path.join(directory, "output")
    audio_seconds = builder_programs.make_corpus(recordings, config.program_hours, corpus_dir)
    ours, peer = [], []
    for number in range(config.rounds + 1):
        taken = (
            builder_programs.build(corpus_dir, output),
            builder_programs.build_by_hand(corpus_dir, f"{output}.tfrecord"),
        )
        if number:  # the first round fills the page cache
            ours.append(taken[0])
            peer.append(taken[1])
    medians = [statistics.median(each) for each in (ours, peer)]
    print(f"whole programs, {audio_seconds / 3600:.2f} h of WAV: ", end="")
    print(
        f"ours {medians[0]:.2f} s, {audio_seconds / medians[0]:,.0f} times real time; peer {medians[1]:.2f} s"
    )
    faster = bars.ratio(peer, ours)
    return [bars.Bar("WAV, times as fast as the peer, both with their start", faster, minimum=2.5)]


def time_workers(
    recordings: Sequence[builder_corpus.SpokenFile], config: BenchmarkConfig, cores: Sequence[int]
) -> list[bars.Bar]:
    """Times one worker on one core and two workers on two, measures their memory, and prints both.

    The start-up time of the processes is the time of a build with one utterance per worker.
    """
    runs = {"one": [], "one, start": [], "two": [], "two, start": []}
    for _ in range(config.rounds):
        for name, used in (("one", cores[:1]), ("two", cores)):
            runs[name].append(_time_build(recordings, config.worker_hours, used))
            runs[f"{name}, start"].append(_time_build(recordings, 0, used))
    one, start_one, two, start_two = (statistics.median(taken for taken, _ in runs[name]) for name in runs)
    short = max(peak for _, peak in runs["one"])
    _, long = _time_build(recordings, config.memory_hours, cores[:1])
    hours, more_hours = f"{config.worker_hours:g} h", f"{config.memory_hours:g} h"
    print(f"{hours}: one worker {one:.2f} s, {start_one:.2f} s of it to start and end; ", end="")
    print(f"two {two:.2f} s, {start_two:.2f} s of it; with these {one / two:.2f} times as fast")
    print(f"peak of a worker: {short / _MIB:.0f} MiB for {hours}, {long / _MIB:.0f} MiB for {more_hours}")
    faster = (one - start_one) / (two - start_two)
    return [
        bars.Bar("two workers against one, times as fast without their start", faster, minimum=1.8),
        bars.Bar("peak memory of a worker in MiB", max(short, long) / _MIB, maximum=600),
        bars.Bar(f"memory for {more_hours} against {hours}", long / short, maximum=1.05),
    ]


def _time_build(
    recordings: Sequence[builder_corpus.SpokenFile], hours: float, cores: Sequence[int]
) -> tuple[float, int]:
    """Builds with one worker per core; returns the seconds and the largest worker's peak in bytes."""
    os.sched_setaffinity(0, cores)
    mean_seconds = statistics.mean(recording.seconds for recording in recordings)
    num_utterances = max(len(cores), round(hours * 3600 / mean_seconds))
    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        peak = builder_ours.build_with_workers(recordings, num_utterances, directory, len(cores))
        return time.perf_counter() - start, peak


def _print_table(seconds: Mapping[tuple[str, str], Sequence[float]], audio_seconds: float) -> None:
    print(f"{'loop':8}{'format':8}{'seconds':>9}{'x real time':>13}{'/ ours':>9}")
    for (name, form), taken in seconds.items():
        median = statistics.median(taken)
        ratio = bars.ratio(taken, seconds["ours", form])
        print(f"{name:8}{form:8}{median:9.3f}{audio_seconds / median:13,.0f}{ratio:9.2f}")


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
