"""Checks training on the GPUs of this machine beside its CPU; to be run first, and pasted into an issue.

    make gpu-check
    python -m benchmarks.gpu_check [--limit_seconds=600]

Makes a small corpus of tones, then trains both models for 50 steps with the real program: on the CPU, on two
CPU replicas, on a GPU, with XLA, with each precision, on two GPUs. Each line passes, fails with the reason,
or names what it needs that this machine lacks. Exit code 1 if a line failed. Without a GPU it takes three
minutes on two cores (measured: 171 s of CPU time); a GPU whose kernels the driver compiles at first use takes
longer the first time.

The loss of each step is compared with that of the same step on the CPU, relative to it. Without TF32 only
rounding differs: by 7e-6 after 50 steps between one CPU replica and two (measured), so 1e-4 is allowed there,
and 1e-3 between CPU and GPU, whose functions differ in the last bits. TF32, float16 and bfloat16 keep 8 to 11
of 24 bits: 0.1 is allowed (chosen, not measured on a GPU), while the loss itself falls by 59 % and 29 %.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from benchmarks.gpu_check import data as gpu_check_data
from benchmarks.gpu_check import runs
from benchmarks.gpu_check import trainings as gpu_check_trainings
from tfrecord_builder.runtime import cpu, lazy_tensorflow
from tfrecord_builder.settings import config_flags, program

PASS, FAIL = "pass", "FAIL"
_TAIL = 10  # lines of the log of a failed child


@dataclasses.dataclass(frozen=True)
class CheckConfig(config_flags.Checked):
    """How long to wait."""

    limit_seconds: float = config_flags.setting(
        600.0, "a child process that takes longer is killed, and its line fails", positive=True
    )


class Line(NamedTuple):
    """A line of the table."""

    name: str
    result: str  # PASS, FAIL and the reason, or what it needs
    seconds: float = 0.0
    step_ms: str = ""
    memory: str = ""
    losses: str = ""
    difference: str = ""
    details: Sequence[str] = ()

    @property
    def is_failed(self) -> bool:
        return self.result.startswith(FAIL)


def main(config: CheckConfig) -> int:
    """Prints each line when it is known and then all as a table; returns 1 if one failed."""
    lazy_tensorflow.load().get_logger().setLevel("ERROR")
    start, lines = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as directory:
        for line in Checks(directory, config.limit_seconds).run():
            print(f"{line.seconds:5.0f} s  {line.name}: {line.result}", flush=True)
            print("".join(f"         {each}\n" for each in line.details), end="", flush=True)
            lines.append(line)
    counts = [sum(line.result == PASS for line in lines), sum(line.is_failed for line in lines)]
    print("\n" + "\n".join(tabulate(lines)))
    print(
        f"\n{counts[0]} passed, {counts[1]} failed, {len(lines) - sum(counts)} need what this machine lacks; "
        f"{time.monotonic() - start:.0f} s"
    )
    return int(counts[1] > 0)


def tabulate(lines: Iterable[Line]) -> Iterator[str]:
    """Yields a table in Markdown."""
    titles = ("check", "result", "s", "ms per step", "memory", "loss at step 1, 50", "difference from CPU")
    rows = [(*line[:2], f"{line.seconds:.0f}", *line[3:7]) for line in lines]
    widths = [max(map(len, column)) for column in zip(titles, *rows)]
    for row in (titles, ["-" * width for width in widths], *rows):
        yield f"| {' | '.join(f'{cell:{width}}' for cell, width in zip(row, widths))} |"


class Checks:
    """The checks of a machine; everything is written into a directory."""

    def __init__(self, directory: str, limit: float):
        self.directory, self.limit, self.capabilities = directory, limit, []

    def run(self) -> Iterator[Line]:
        """Yields the lines; the trainings only if there is data for them."""
        yield self._find_devices()
        yield self._compare_ctc_kernels()
        data = self._build_data()
        yield data
        if not data.is_failed:
            for model in ("acoustic", "language"):
                yield from self.train(model, gpu_check_trainings.TRAININGS)

    def train(self, model: str, trainings: Sequence[gpu_check_trainings.Training]) -> Iterator[Line]:
        """Yields the lines of a model; the first training is the one that the others are compared with."""
        expected, cpu_flags = [], cpu.read_flags()
        for training in trainings:
            name = f"{model}, {training.name}"
            need = gpu_check_trainings.find_need(training, self.capabilities, cpu_flags)
            if need:
                yield Line(name, need)
                continue
            done, steps = self._train(model, name, training)
            wanted = steps.losses if training is trainings[0] else expected
            problem = done.problem or runs.judge(steps.losses, wanted, training.tolerance)
            if training is trainings[0] and not problem:
                expected = steps.losses
            yield _describe(name, done, problem, steps, expected)

    def _train(self, model, name, training):
        path = os.path.join(self.directory, name)
        words = [
            "-m",
            "estimator_asr.train",
            f"--model={model}",
            f"--model_dir={path}",
            *gpu_check_trainings.FLAGS,
            *training.flags,
        ]
        visible = runs.choose_devices(training.num_gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
        environment = {**training.environment, "CUDA_VISIBLE_DEVICES": visible}
        done = self._run([*words, f"--data_dir={self.directory}/data"], environment)
        return done, runs.read_steps(path)

    def _find_devices(self):
        done = self._run(["-m", "benchmarks.gpu_check.facts", "devices"], {})
        if done.problem:
            return _fail("devices", done, done.problem)
        facts = _parse(done.log)
        self.capabilities = [capability for _, capability in facts["gpus"]]
        details = [f"TensorFlow {facts['tensorflow']}", *(text for _, text in facts["findings"])]
        problems = [text for level, text in facts["findings"] if level == "problem"]
        result = f"{FAIL}: {problems[0]}" if problems else PASS
        return Line("devices", result, done.seconds, details=details)

    def _compare_ctc_kernels(self):
        name = "CTC by cuDNN"
        if not self.capabilities:
            return Line(name, "needs a GPU")
        done = self._run(["-m", "benchmarks.gpu_check.facts", "ctc"], gpu_check_trainings.EXACT)
        if done.problem:
            return _fail(name, done, f"{done.problem}; the classic kernel is used")
        apart, tolerance = _parse(done.log).values()
        if not apart <= tolerance:
            return _fail(
                name, done, f"differs by {apart:.1e}, expected {tolerance:g} at most; classic is used"
            )
        return Line(name, PASS, done.seconds, difference=f"{apart:.1e}")

    def _build_data(self):
        corpus = os.path.join(self.directory, "corpus")
        os.mkdir(corpus)
        gpu_check_data.write_corpus(corpus)
        words = [
            "-m",
            "tfrecord_builder.build",
            "--corpus=manifest",
            f"--corpus_dir={corpus}",
            "--num_shards=2",
        ]
        done = self._run([*words, f"--output_dir={self.directory}/data"], {"CUDA_VISIBLE_DEVICES": ""})
        return _fail("data", done, done.problem) if done.problem else Line("data", PASS, done.seconds)

    def _run(self, words, environment):
        return runs.run(words, os.path.join(self.directory, "log"), self.limit, environment)


def _parse(log):
    """Returns the line of JSON in a log, which may have others after it."""
    return json.loads(next(line for line in reversed(log.splitlines()) if line.startswith("{")))


def _describe(name, done, problem, steps, expected):
    if problem:
        return _fail(name, done, problem)
    first, *_, last = steps.losses
    apart = runs.difference(steps.losses, expected)
    return Line(
        *(name, PASS, done.seconds, f"{steps.milliseconds:.1f}", runs.find_peak(done.log)),
        *(f"{first:.3f}, {last:.3f}", "" if steps.losses is expected else f"{apart:.1e}"),
    )


def _fail(name, done, problem):
    return Line(name, f"{FAIL}: {problem}", done.seconds, details=done.log.splitlines()[-_TAIL:])


if __name__ == "__main__":
    program.run(main, CheckConfig)
