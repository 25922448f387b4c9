"""Measures the parts of a build that do not process audio, for long lists, and prints a table.

    python -m benchmarks.builder_scale
    python -m benchmarks.builder_scale --num_rows=100000 --num_workers=2 --nobuilds
    python -m benchmarks.builder_scale --num_rows=1000000 --runner=ray://127.0.0.1:10001 --nobuilds

The rows refer to eight recordings of 0.3 s. For each list, the benchmark times the stages before the first
shard, and labelling a second time, as after an interruption; --runner labels on a cluster. With --builds, it
then builds the same number of sentences of text, kills the build at its first shard, runs it again, and
verifies the data. CPU seconds are summed over all processes of this command, without those of a cluster; the
peak memory is that of the largest process.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import functools
import glob
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Optional

import numpy as np
import soundfile

from tfrecord_builder.audio.augmentation import augmentation_config, copies
from tfrecord_builder.building import catalog, chunks, listing, sharding
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.labels import labelling
from tfrecord_builder.program import config_flags, program

_WORDS = "今天天气很好 我们去北京 你喜欢喝茶 朋友时候吗 一下 谢谢 管理 水果 图书馆 火车站".split()
_NUM_SHARDS = 64


@dataclasses.dataclass(frozen=True)
class ScaleConfig(config_flags.Checked):
    """The amounts of data to measure, and the workers."""

    num_rows: tuple[str, ...] = config_flags.setting(("100000", "1000000"), "number of rows per list")
    num_workers: int = config_flags.setting(2, "number of processes that label and write", minimum=1)
    runner: str = config_flags.setting(dispatch.LOCAL, f"for labelling, {dispatch.HELP}")
    builds: bool = config_flags.setting(True, "also measure builds of text that are killed and run again")


def main(config: ScaleConfig) -> int:
    """Prints a line per stage."""
    print(f"{'rows':>10} {'stage':28}{'seconds':>9}{'CPU s':>9}{'us a row':>9}{'peak MiB':>9}")
    for num_rows in map(int, config.num_rows):
        with tempfile.TemporaryDirectory() as directory:
            make_lists(directory, num_rows)
            with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                num_workers = config.num_workers if config.runner == dispatch.LOCAL else None
                process.submit(measure_stages, directory, num_rows, config.runner, num_workers).result()
            if config.builds:
                measure_builds(directory, num_rows, config.num_workers)
    return 0


def make_lists(directory: str, num_rows: int) -> None:
    """Writes manifest.tsv and its recordings, and train.tsv, which contains text."""
    for i in range(8):
        tone = 0.3 * np.sin(2 * np.pi * (200 + 50 * i) * np.arange(4800) / 16000)
        soundfile.write(os.path.join(directory, f"{i}.wav"), tone, 16000)
    rng = random.Random(1)
    paths = (os.path.join(directory, name) for name in ("manifest.tsv", "train.tsv"))
    spoken, text = (open(path, "w", encoding="utf-8") for path in paths)
    with spoken, text:
        spoken.write("id\taudio\tspeaker\ttext\tsplit\n")
        text.write("hanzi\tpinyin\n")
        for row in range(num_rows):
            sentence = "".join(rng.choices(_WORDS, k=4))
            split = "train" if row % 100 else "dev"
            spoken.write(f"{rng.getrandbits(64):016x}\t{row % 8}.wav\ts{row % 500}\t{sentence}\t{split}\n")
            text.write(f"{sentence}\t\n")


def measure_stages(directory: str, num_rows: int, runner: str, num_workers: Optional[int]) -> None:
    """Measures the stages before the first shard."""
    measure = functools.partial(_measure, num_rows)
    labeller = labelling.Labeller(labelling.LabelConfig())
    settings = (labeller, augmentation_config.AugmentationConfig(), copies.Sources())
    with (
        dispatch.connect(runner, num_workers) as run,
        catalog.open_new(directory) as listed,
    ):
        measure("listing", lambda: listing.list_corpus("manifest", [directory], listed))
        lists = list(listed.lists())
        for stage in ("labelling", "labelling, again"):
            labelled = measure(stage, lambda: chunks.label_corpus(lists, *settings, directory, run))
        sizes: collections.Counter = collections.Counter()
        for each in labelled:
            sizes.update(each.split_sizes)
        paths = [os.path.join(directory, each.file) for each in labelled]
        measure("assigning to shards", lambda: sharding.write(paths, sizes, _NUM_SHARDS, directory, listed))
        measure("distinct sentences", listed.sentences)


def measure_builds(directory: str, num_rows: int, num_workers: int) -> None:
    """Measures a build that is killed at its first shard, the same build run again, and verify."""
    output_dir = os.path.join(directory, "output")
    flags = [f"--output_dir={output_dir}", f"--num_shards={_NUM_SHARDS}", f"--num_workers={num_workers}"]
    build = ["build", "--corpus=text", f"--corpus_dir={directory}", *flags]
    _run(num_rows, "build to its first shard", build, os.path.join(output_dir, ".build", "*.tfrecord.json"))
    _run(num_rows, "the same build, again", build)
    _run(num_rows, "verify", ["verify", f"--data_dir={output_dir}"])


def _measure(num_rows: int, stage: str, run: Callable[[], object]) -> object:
    began, before = time.monotonic(), _cpu_seconds()
    result = run()
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    _print(num_rows, stage, time.monotonic() - began, _cpu_seconds() - before, peak)
    return result


def _cpu_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def _run(num_rows: int, stage: str, command: list[str], kill_at: Optional[str] = None) -> None:
    """Runs a builder program to its end, or kills it once a file matches the pattern `kill_at`."""
    began = time.monotonic()
    name, *flags = command
    quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process = subprocess.Popen([sys.executable, "-m", f"tfrecord_builder.{name}", *flags], **quiet)
    while kill_at and process.poll() is None and not glob.glob(kill_at):
        time.sleep(0.05)
    taken = time.monotonic() - began
    if kill_at:
        process.kill()
    _, _, used = os.wait4(process.pid, 0)
    seconds = taken if kill_at else time.monotonic() - began
    _print(num_rows, stage, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss)


def _print(num_rows: int, stage: str, seconds: float, cpu_seconds: float, peak_kib: int) -> None:
    each, peak = 1e6 * cpu_seconds / num_rows, peak_kib / 1024
    print(f"{num_rows:10,} {stage:28}{seconds:9.1f}{cpu_seconds:9.1f}{each:9.0f}{peak:9.0f}", flush=True)


if __name__ == "__main__":
    program.run(main, ScaleConfig)
