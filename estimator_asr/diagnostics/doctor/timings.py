"""What this machine reaches: matrix products, the input alone, and ten steps of a model like the user's.

The model is a new one in a temporary directory: its weights do not change how long a step takes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import tensorflow as tf
import tqdm

from estimator_asr import experiment, model_directory, task_spec, training_config
from estimator_asr.diagnostics import trial
from estimator_asr.diagnostics.doctor import findings, matrix_products
from estimator_asr.inputs import damage, input_fn
from estimator_asr.training.distributed import strategies
from tfrecord_builder import dataset_info

_SIZES = {"CPU": 2048, "GPU": 8192}
_INPUT_SECONDS = 3.0
_NUM_STEPS = 10
_NUM_FIRST = 1  # builds kernels and fills memory
_STEP_SECONDS = 60.0  # a slow machine has said enough after so long
# Below this the step waits for its input now and then.
_ENOUGH_INPUT = 3.0


class Steps(NamedTuple):
    """Timed training steps.

    Attributes:
        seconds: of all of them.
        num_steps: how many.
        num_inputs: frames or tokens in all of them, without padding.
        num_operations: of the matrix products of all of them.
    """

    seconds: float
    num_steps: int
    num_inputs: int
    num_operations: int


def check(
    infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str], model_dir: Optional[str]
) -> Iterator[findings.Finding]:
    """Yields the findings: the matrix product alone without data.

    Args:
        infos, data_dirs: what to read; may be empty.
        model_dir: whose settings to take; None takes the defaults.
    """
    device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    rate = matrix_products.measure_rate(_SIZES[device])
    yield findings.ok(f"float32 matrix product on the {device}: {rate / 1e9:,.0f} GFLOP/s")
    if not infos:
        return
    config = _config(infos, data_dirs, model_dir)
    unit = config.spec.unit
    with damage.explain(data_dirs, "train"):
        input_rate = time_input(config, infos, data_dirs)
        yield findings.ok(f"input alone: {input_rate:,.0f} {unit}/s")
        yield from judge_steps(time_steps(config, infos, data_dirs), unit, rate, input_rate)


def judge_steps(steps: Steps, unit: str, rate: float, input_rate: float) -> Iterator[findings.Finding]:
    """Yields what the steps say beside the rates of matrix products and of the input."""
    step_rate = steps.num_inputs / steps.seconds
    work = steps.num_operations / steps.seconds
    yield findings.ok(
        f"training step, mean of {steps.num_steps}: {1000 * steps.seconds / steps.num_steps:,.0f} ms for "
        f"{steps.num_inputs / steps.num_steps:,.0f} {unit}, {step_rate:,.0f} {unit}/s; its matrix products "
        f"are {100 * work / rate:.0f} % of what the device can do"
    )
    times = input_rate / step_rate
    fed = f"the input alone delivers {times:.1f} times what training takes"
    if times >= _ENOUGH_INPUT:
        yield findings.ok(fed)
    else:
        yield findings.warning(
            f"{fed}, expected {_ENOUGH_INPUT:.0f}; move the data to a local disk, or give it more cores"
        )


def time_input(
    config: experiment.ExperimentConfig,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    seconds: float = _INPUT_SECONDS,
) -> float:
    """Returns the frames or tokens a second, without padding, that the training input delivers by itself."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features, _ = tf.compat.v1.data.make_one_shot_iterator(_read(config, infos, data_dirs)()).get_next()
        total = tf.reduce_sum(features[config.spec.length_key])
        session.run(total)  # the shuffle buffer is full now
        begin, count = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            count += int(session.run(total))
        return count / (time.monotonic() - begin)


def time_steps(
    config: experiment.ExperimentConfig, infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str]
) -> Steps:
    """Times training steps on batches that are in memory already."""
    batches = trial.read_batches(_read(config, infos, data_dirs), _NUM_FIRST + _NUM_STEPS)
    with tempfile.TemporaryDirectory() as directory:
        model = model_directory.create_or_check(directory, config, data_dirs[0])
        with trial.start(model, batches.spec, strategies.session_config(config.train)) as running:
            for batch in batches.values[:_NUM_FIRST]:
                running.step(batch)
            return _time(running, batches.values[_NUM_FIRST:], config.spec.length_key)


def _time(running, batches, name):
    """Times as many of the batches as the limit lets."""
    counter = matrix_products.Counter(running.train_op)
    running.step(batches[0], counter.shapes)  # the session takes the new fetches in
    shapes, begin = [], time.monotonic()
    for batch in tqdm.tqdm(batches, desc="training steps", unit=" steps", disable=None, leave=False):
        if time.monotonic() - begin > _STEP_SECONDS:
            break
        shapes.append(running.step(batch, counter.shapes))
    seconds = time.monotonic() - begin
    num_inputs = sum(int(features[name].sum()) for features, _ in batches[: len(shapes)])
    return Steps(seconds, len(shapes), num_inputs, sum(map(counter.count, shapes)))


def _config(infos, data_dirs, model_dir):
    if model_dir is not None:
        config = model_directory.open_model_directory(model_dir).config
        for info, data_dir in zip(infos, data_dirs):
            model_directory.check_data(model_dir, config, info, data_dir)
        return config
    spec = task_spec.for_data(has_audio=infos[0].frontend is not None)
    return experiment.ExperimentConfig.for_data(infos[0], train=training_config.TrainConfig(model=spec.name))


def _read(config, infos, data_dirs):
    return input_fn.build_input_fn(
        infos, data_dirs, "train", config.input, spec=config.spec, training=True, seed=config.train.seed
    )
