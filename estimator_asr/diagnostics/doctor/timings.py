"""Timings: matrix products, the input pipeline by itself, and ten training steps of a new model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf
import tqdm

from estimator_asr.diagnostics import trial
from estimator_asr.diagnostics.doctor import findings, matrix_products
from estimator_asr.experiment import experiment, model_directory, task_spec, training_config
from estimator_asr.inputs import input_fn, splits
from estimator_asr.training.distributed import strategies
from tfrecord_builder.data import dataset_info

_SIZES = {"CPU": 2048, "GPU": 8192}
_INPUT_SECONDS = 3.0
_NUM_STEPS = 10
_STEP_SECONDS = 60.0  # limit for all steps, for a slow machine
# Below this ratio the step waits for its input now and then.
_ENOUGH_INPUT = 3.0


class Steps(NamedTuple):
    """Timed training steps."""

    seconds: float  # of all steps
    num_steps: int
    num_inputs: int  # frames or tokens of all steps, without padding
    num_operations: int  # of the matrix products of all steps


def check(
    infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str], model_dir: Optional[str]
) -> Iterator[findings.Finding]:
    """Yields the findings, without data only that of the matrix product; None for a model of default size."""
    device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    rate = matrix_products.measure_rate(_SIZES[device])
    yield findings.ok(f"float32 matrix product on the {device}: {rate / 1e9:,.0f} GFLOP/s")
    if not infos:
        return
    config = _config(infos, data_dirs, model_dir)
    source = splits.read_split(infos, data_dirs, "train", config.spec)
    read = input_fn.build_input_fn(source, config.input, training=True, seed=config.train.seed)
    with splits.explain_damage(data_dirs, "train"):
        input_rate = time_input(read, config.spec.length_key)
        yield findings.ok(f"input alone: {input_rate:,.0f} {config.spec.unit}/s")
        yield from judge_steps(time_steps(read, config, data_dirs[0]), config.spec.unit, rate, input_rate)


def judge_steps(steps: Steps, unit: str, rate: float, input_rate: float) -> Iterator[findings.Finding]:
    """Yields how the steps compare with the rates of matrix products and of the input."""
    step_rate = steps.num_inputs / steps.seconds
    work = steps.num_operations / steps.seconds
    yield findings.ok(
        f"training step, mean of {steps.num_steps}: {1000 * steps.seconds / steps.num_steps:,.0f} ms for "
        f"{steps.num_inputs / steps.num_steps:,.0f} {unit}, {step_rate:,.0f} {unit}/s; its matrix products "
        f"reach {100 * work / rate:.0f} % of the device's rate"
    )
    ratio = input_rate / step_rate
    text = f"the input alone is {ratio:.1f} times as fast as training"
    if ratio >= _ENOUGH_INPUT:
        yield findings.ok(text)
    else:
        yield findings.warning(
            f"{text}, expected {_ENOUGH_INPUT:.0f}; move the data to a local disk, or use more cores"
        )


def time_input(read, length_key: str, seconds: float = _INPUT_SECONDS) -> float:
    """Returns the frames or tokens per second, without padding, that an input_fn delivers by itself."""

    def build():
        return read().map(lambda features, _: tf.reduce_sum(features[length_key]))

    totals = input_fn.read_elements(build)
    next(totals)  # the shuffle buffer is full now
    begin, count = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        count += int(next(totals))
    return count / (time.monotonic() - begin)


def time_steps(read, config: experiment.ExperimentConfig, data_dir: str) -> Steps:
    """Times training steps on batches that are in memory already."""
    batches = list(input_fn.read_elements(lambda: read().take(1 + _NUM_STEPS)))
    model = model_directory.open_new(data_dir, config, data_dir)
    with trial.start(model, batches[0], strategies.session_config(config.train)) as running:
        return _time(running, batches, config.spec.length_key)


def _time(running, batches, length_key):
    """Times as many of the batches as the limit allows."""
    first, *batches = batches
    counter = matrix_products.Counter(running.train_op)
    running.step(first, counter.shapes)  # builds kernels and allocates memory
    shapes, begin = [], time.monotonic()
    for batch in tqdm.tqdm(batches, desc="training steps", unit=" steps", disable=None, leave=False):
        if time.monotonic() - begin > _STEP_SECONDS:
            break
        shapes.append(running.step(batch, counter.shapes))
    seconds = time.monotonic() - begin
    num_inputs = sum(int(features[length_key].sum()) for features, _ in batches[: len(shapes)])
    return Steps(seconds, len(shapes), num_inputs, sum(map(counter.count, shapes)))


def _config(infos, data_dirs, model_dir):
    if model_dir is not None:
        config = model_directory.open_model_directory(model_dir).config
        for info, data_dir in zip(infos, data_dirs):
            model_directory.check_data(model_dir, config, info, data_dir)
        return config
    spec = task_spec.for_data(has_audio=infos[0].frontend is not None)
    return experiment.ExperimentConfig.for_data(infos[0], train=training_config.TrainConfig(model=spec.name))
