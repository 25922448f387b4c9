"""The checks of devices, data and trainings, each of which runs a child process and yields a line."""

import concurrent.futures
import json
import os
import shutil
import time
from collections.abc import Iterator

from benchmarks.gpu_check import data as gpu_check_data
from benchmarks.gpu_check import lines as lines_lib
from benchmarks.gpu_check import runs
from benchmarks.gpu_check import trainings as gpu_check_trainings
from tfrecord_builder.program import cpu

Line = lines_lib.Line
_TAIL = 10  # lines shown from the log of a failed child
_SIDE_BY_SIDE = 6  # small trainings, each of which takes less than 2 GiB of a GPU


class Checks:
    """The checks of a machine, which write all files into one directory."""

    def __init__(self, passed: lines_lib.Passed, limit: float, num_parts: int):
        """Starts the clock for the time limit; a GPU is split into num_parts."""
        self.passed, self.directory, self.num_parts = passed, passed.directory, num_parts
        self.end, self.machine, self.capabilities = time.monotonic() + limit, None, []

    def run(self) -> Iterator[Line]:
        """Yields the lines; stops if the devices or the data fail."""
        devices = self._find_devices()
        yield devices
        if self.machine is None:
            return
        self.passed.read(self.machine)
        data = self.passed.find("data") or self.passed.note(self._build_data())
        yield data
        if data.result == lines_lib.PASS:
            for group in gpu_check_trainings.list_groups(self.num_parts):
                yield from self.train(group)

    def train(self, group: gpu_check_trainings.Group) -> Iterator[Line]:
        """Yields the lines of a group, whose first training is the reference for the others."""
        count = min(_SIDE_BY_SIDE, cpu.count_cores() // 2) if group.side_by_side else 1
        pool = concurrent.futures.ThreadPoolExecutor(max(count, 1))
        try:
            started = [
                self._find_line(group, each) or pool.submit(self._train, group, each)
                for each in group.trainings
            ]
            for training, run in zip(group.trainings, started):
                is_known = isinstance(run, Line)
                yield run if is_known else self.passed.note(self._judge(group, training, run.result()))
        finally:
            pool.shutdown(cancel_futures=True)

    def _find_line(self, group, training):
        """Returns the line of a training that has passed or needs what this machine lacks, else None."""
        name = _name(group, training)
        need = gpu_check_trainings.find_need(training, self.capabilities, cpu.read_flags())
        return Line(name, need) if need else self.passed.find(name)

    def _train(self, group, training):
        model_dir = self._model_dir(_name(group, training))
        shutil.rmtree(model_dir, ignore_errors=True)  # left by a training that was cut off
        visible = runs.choose_devices(training.num_gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))
        environment = {**training.environment, "CUDA_VISIBLE_DEVICES": visible}
        return self._run(self._command(group, training, model_dir), environment, f"{model_dir}.log")

    def _judge(self, group, training, done):
        name, first = _name(group, training), _name(group, group.trainings[0])
        steps = runs.read_steps(self._model_dir(name))
        losses = steps.losses if name == first else []
        if self.passed.find(first):
            losses = runs.read_steps(self._model_dir(first)).losses
        problem = done.problem or runs.judge(steps.losses, losses, training.tolerance, group.num_steps)
        if problem:
            return _fail(name, done, problem)
        apart = "" if name == first else f"{runs.difference(steps.losses, losses):.1e}"
        return _describe(name, done, steps, apart)

    def _command(self, group, training, model_dir):
        program = ["benchmarks.gpu_check.measured_train", str(training.parts)]
        flags = [*group.flags, f"--train_steps={group.num_steps}", *training.flags]
        places = [f"--data_dir={self.directory}/{group.data}", f"--model_dir={model_dir}"]
        return ["-m", *program, *flags, *places]

    def _model_dir(self, name):
        return os.path.join(self.directory, name.replace("/", "-"))

    def _find_devices(self):
        done = self._run(["-m", "benchmarks.gpu_check.facts"], {})
        if done.problem:
            return _fail("devices", done, done.problem)
        facts = _parse(done.log)
        self.machine = f"TensorFlow {facts['tensorflow']}, {facts['gpus']}"
        self.capabilities = [capability for _, capability in facts["gpus"]]
        details = [f"TensorFlow {facts['tensorflow']}", *(text for _, text in facts["findings"])]
        problems = [text for level, text in facts["findings"] if level == "problem"]
        result = f"{lines_lib.FAIL}: {problems[0]}" if problems else lines_lib.PASS
        return Line("devices", result, done.seconds, details=details)

    def _build_data(self):
        seconds = 0.0
        for data, corpus in gpu_check_data.CORPORA.items():
            recordings = os.path.join(self.directory, f"{data}-recordings")
            os.makedirs(recordings, exist_ok=True)
            gpu_check_data.write_corpus(recordings, corpus)
            flags = ["--corpus=manifest", "--num_shards=2", f"--corpus_dir={recordings}"]
            words = ["-m", "tfrecord_builder.build", *flags, f"--output_dir={self.directory}/{data}"]
            done = self._run(words, {"CUDA_VISIBLE_DEVICES": ""})
            seconds += done.seconds
            if done.problem:
                return _fail("data", done, done.problem)
        return Line("data", lines_lib.PASS, seconds)

    def _run(self, words, environment, log=None):
        left = self.end - time.monotonic()
        if left <= 0:
            return runs.Run(0.0, "the limit is over", "", was_cut_off=True)
        return runs.run(words, log or os.path.join(self.directory, "log"), left, environment)


def _name(group, training):
    return f"{group.name}, {training.name}"


def _parse(log):
    """Returns the JSON line in a log, which other lines may follow."""
    return json.loads(next(line for line in reversed(log.splitlines()) if line.startswith("{")))


def _describe(name, done, steps, apart):
    first, *_, last = steps.losses
    peak = _parse(done.log)
    memory = f"{peak['bytes'] / 2**30:.2f} GiB of {peak['kind']}"
    return Line(
        *(name, lines_lib.PASS, done.seconds, f"{steps.milliseconds:.1f}", memory),
        *(f"{first:.3f}, {last:.3f}", apart),
    )


def _fail(name, done, problem):
    result = lines_lib.NOT_RUN if done.was_cut_off else lines_lib.FAIL
    return Line(name, f"{result}: {problem}", done.seconds, details=done.log.splitlines()[-_TAIL:])
