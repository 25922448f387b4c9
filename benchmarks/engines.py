"""Compares the time of builds on Spark or Ray with the same build in two local processes.

    python -m benchmarks.engines --runners=spark://127.0.0.1:7077,ray://127.0.0.1:10001

First start each cluster on this machine, with two workers of one core each (docs/build.md). Each runner in
turn builds --num_utterances utterances of one to two seconds, and then twice as many. The difference between
the two times excludes the start-up time, which is printed separately. All runners must write the same bytes.
The bar: without start-up, a runner takes at most 1.1 times as long as --num_workers=2 (median of the rounds).
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import soundfile

from benchmarks import bars
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program

_LOCAL = ("--num_workers=2",)
_SAMPLE_RATE = 16000
_MAX_RATIO = 1.1


@dataclasses.dataclass(frozen=True)
class EnginesConfig(config_flags.Checked):
    """The clusters, and how much they build."""

    runners: tuple[str, ...] = config_flags.setting((), "values for build --runner", required=True)
    num_utterances: int = config_flags.setting(10000, "number of utterances in the smaller build", minimum=1)
    rounds: int = config_flags.setting(3, "number of builds of each size by each runner", minimum=1)


def main(config: EnginesConfig) -> int:
    """Prints the seconds of each round, then the bars; returns 1 if a bar is missed."""
    sides = {"local": _LOCAL, **{runner: (f"--runner={runner}",) for runner in config.runners}}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    print(f"{'side':32}{'start-up, s':>14}{f'{config.num_utterances:,} utterances, s':>26}")
    with tempfile.TemporaryDirectory() as directory:
        for size in (1, 2):
            write_corpus(os.path.join(directory, str(size)), size * config.num_utterances)
        for _ in range(config.rounds):
            digests = set()
            for side, flags in sides.items():
                first, _ = build(os.path.join(directory, "1"), flags)
                both, digest = build(os.path.join(directory, "2"), flags)
                seconds[side].append(both - first)
                digests.add(digest)
                print(f"{side:32}{2 * first - both:14.1f}{both - first:26.1f}", flush=True)
            if len(digests) > 1:
                raise errors.UserError(
                    "the runners wrote different bytes, which is a bug; report it with this output"
                )
            sides = dict([*list(sides.items())[1:], *list(sides.items())[:1]])  # another side begins
    for side, values in seconds.items():
        print(f"{side}: median {statistics.median(values):.1f} s")
    local = seconds.pop("local")
    ratios = {side: bars.ratio(values, local) for side, values in seconds.items()}
    return bars.show(
        [bars.Bar(f"{side}, of local", each, maximum=_MAX_RATIO) for side, each in ratios.items()]
    )


def write_corpus(directory: str, num_utterances: int) -> None:
    """Writes recordings of noise and their manifest."""
    os.makedirs(directory)
    rng, lines = np.random.default_rng(1), ["id\taudio\tspeaker\ttext\tsplit"]
    for i in range(num_utterances):
        samples = rng.integers(-3000, 3000, rng.integers(_SAMPLE_RATE, 2 * _SAMPLE_RATE), np.int16)
        soundfile.write(os.path.join(directory, f"{i:06}.wav"), samples, _SAMPLE_RATE)
        lines.append(f"{i:06}\t{i:06}.wav\ts{i % 100}\t今天天气\t{'train' if i % 100 else 'dev'}")
    pathlib.Path(directory, "manifest.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def build(corpus_dir: str, flags: tuple[str, ...]) -> tuple[float, str]:
    """Builds a corpus; returns the seconds and a hash of its shards."""
    output_dir, began = f"{corpus_dir}-built", time.monotonic()
    command = [sys.executable, "-m", "tfrecord_builder.build", "--corpus=manifest", *flags]
    done = subprocess.run(
        [*command, f"--corpus_dir={corpus_dir}", f"--output_dir={output_dir}"], capture_output=True
    )
    taken, digest = time.monotonic() - began, hashlib.sha256()
    if done.returncode:
        raise errors.UserError(f"build {' '.join(flags)} failed: {done.stderr.decode()[-500:]}")
    for path in sorted(pathlib.Path(output_dir).glob("*.tfrecord")):
        digest.update(path.name.encode() + path.read_bytes())
    shutil.rmtree(output_dir)
    return taken, digest.hexdigest()


if __name__ == "__main__":
    program.run(main, EnginesConfig)
