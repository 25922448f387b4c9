"""Times matrix products, the input pipeline alone, and ten training steps of a new model."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import experiment, model_directory, task_spec, training_config
from estimator_asr.inputs import input_fn, splits
from estimator_asr.monitoring.diagnostics import trial
from estimator_asr.monitoring.diagnostics.doctor import findings
from estimator_asr.training.distributed import strategies
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import progress_bar

_SIZES = {"CPU": 2048, "GPU": 8192}
PRODUCT_SECONDS = 1.5
INPUT_SECONDS = 3.0
_NUM_STEPS = 10
_STEP_SECONDS = 60.0  # time limit for all steps together, for slow machines
# Steps sometimes wait for input unless the input alone is at least this many times as fast as training.
_ENOUGH_INPUT = 3.0
_COUNTED = re.compile("(Batch)?MatMul(V2|V3)?|(Conv2D|DepthwiseConv2dNative)(BackpropFilter|BackpropInput)?")


class Steps(NamedTuple):
    """Measurements from the timed training steps."""

    seconds: float  # duration of all steps together
    num_steps: int
    num_inputs: int  # frames or tokens in all steps, excluding padding
    num_operations: int  # number of floating-point operations in the matrix products of all steps


def check(data_dirs: Sequence[str], model_dir: Optional[str]) -> Iterator[findings.Finding]:
    """Yields findings about the speed; without data, only about the speed of matrix products.

    If model_dir is None, a default-size model is timed. Raises errors.UserError if a directory cannot be read
    or the data does not fit the model.
    """
    device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    rate = measure_rate(_SIZES[device])
    yield findings.ok(f"float32 matrix product on the {device}: {rate / 1e9:,.0f} GFLOP/s")
    if not data_dirs:
        return
    infos = dataset_info.load_all(data_dirs)
    config = choose_config(infos, data_dirs, model_dir)
    source = splits.read_split(infos, data_dirs, "train", config.spec)
    read = input_fn.build_input_fn(source, config.input, training=True, seed=config.train.seed)
    with splits.explain_damage(data_dirs, "train"):
        input_rate = _time_input(read, config.spec.length_key)
        yield findings.ok(f"input alone: {input_rate:,.0f} {config.spec.unit}/s")
        # Reading the batches now keeps the input pipeline out of the timed steps.
        batches = list(input_fn.read_elements(lambda: read().take(1 + _NUM_STEPS)))
    model = model_directory.open_new(data_dirs[0], config, data_dirs[0])
    with trial.start_trial(model, batches[0], strategies.session_config(config.train)) as running:
        steps = _time_steps(running, batches, config.spec.length_key)
    yield from judge_steps(steps, config.spec.unit, rate, input_rate)


def choose_config(
    infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str], model_dir: Optional[str]
) -> experiment.ExperimentConfig:
    """Returns a model directory's settings, or the defaults for the data if model_dir is None."""
    if model_dir is None:
        train = training_config.TrainConfig(model=task_spec.for_data(infos[0]).name)
        return experiment.ExperimentConfig.for_data(infos[0], train=train)
    config = model_directory.open_model_directory(model_dir).config
    for info, data_dir in zip(infos, data_dirs):
        model_directory.check_data(model_dir, config, info, data_dir)
    return config


def judge_steps(steps: Steps, unit: str, rate: float, input_rate: float) -> Iterator[findings.Finding]:
    """Yields findings that compare a training step's speed with matrix products and the input pipeline.

    `rate` is in operations per second, `input_rate` in frames or tokens (`unit`) per second.
    """
    step_rate = steps.num_inputs / steps.seconds
    work = steps.num_operations / steps.seconds
    yield findings.ok(
        f"training step, mean of {steps.num_steps}: {1000 * steps.seconds / steps.num_steps:,.0f} ms for "
        f"{steps.num_inputs / steps.num_steps:,.0f} {unit}, {step_rate:,.0f} {unit}/s; its matrix products "
        f"reach {100 * work / rate:.0f} % of the rate measured above"
    )
    ratio = input_rate / step_rate
    text = f"the input alone is {ratio:.1f} times as fast as training"
    advice = (
        f"but should be at least {_ENOUGH_INPUT:.0f} times; move the data to a local disk, or use more cores"
    )
    yield findings.ok(text) if ratio >= _ENOUGH_INPUT else findings.warning(f"{text}, {advice}")


def _time_input(read, length_key):
    """Returns the speed of an input_fn alone, in frames or tokens per second, excluding padding."""
    totals = input_fn.read_elements(
        lambda: read().map(lambda features, _: tf.reduce_sum(features[length_key]))
    )
    next(totals)  # fills the shuffle buffer
    begin, count = time.monotonic(), 0
    while time.monotonic() - begin < INPUT_SECONDS:
        count += int(next(totals))
    return count / (time.monotonic() - begin)


def _time_steps(running, batches, length_key):
    """Times training steps for up to _STEP_SECONDS; the first batch is not timed."""
    first, *batches = batches
    counter = Counter(running.train_op)
    running.step(first, counter.shapes)  # builds kernels and allocates memory
    shapes, begin = [], time.monotonic()
    for batch in progress_bar.ProgressBar(batches, desc="training steps", unit=" steps", leave=False):
        if time.monotonic() - begin > _STEP_SECONDS:
            break
        shapes.append(running.step(batch, counter.shapes))
    seconds = time.monotonic() - begin
    num_inputs = sum(int(features[length_key].sum()) for features, _ in batches[: len(shapes)])
    return Steps(seconds, len(shapes), num_inputs, sum(map(counter.count, shapes)))


def measure_rate(size: int) -> float:
    """Returns the best measured rate of float32 [size, size] matrix products, in operations per second.

    A product of [m, k] and [k, n] counts as 2 m k n operations.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sides = [tf.compat.v1.get_variable(name, [size, size]) for name in "ab"]
        product = tf.reduce_max(tf.matmul(*sides))  # a scalar, so that no matrix is copied from the device
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(product)
        times, end = [], time.monotonic() + PRODUCT_SECONDS
        while not times or time.monotonic() < end:
            begin = time.monotonic()
            session.run(product)
            times.append(time.monotonic() - begin)
    return 2.0 * size**3 / min(times)


class Counter:
    """Counts the floating-point operations of a target's matrix products, convolutions and their gradients.

    Those inside functions, loops and fused kernels (CTC) are not counted, because they are few.

    Attributes:
        shapes: shape tensors to fetch in the run that is counted; fetching them costs almost nothing.
    """

    def __init__(self, target: tf.Operation):
        graph = target.graph
        needed = tf.compat.v1.graph_util.extract_sub_graph(graph.as_graph_def(), [target.name])
        names = [node.name for node in needed.node if _COUNTED.fullmatch(node.op)]
        self._operations = [graph.get_operation_by_name(name) for name in names]
        with graph.as_default():
            self.shapes = [[tf.shape(item) for item in (*op.inputs, *op.outputs)] for op in self._operations]

    def count(self, shapes: list) -> int:
        """Returns the number of operations in a run that returned `shapes` for self.shapes."""
        rows = [[list(map(int, shape)) for shape in row] for row in shapes]
        return sum(map(_count_operations, self._operations, rows))


def _count_operations(operation, shapes):
    """Returns 2 x number of outputs x terms per output; a gradient costs as much as its convolution."""
    if "MatMul" in operation.type:
        is_transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
        return 2 * int(np.prod(shapes[-1])) * shapes[0][-2 if is_transposed else -1]
    kernel = shapes[3 if operation.type.endswith("Filter") else 1]
    terms = kernel[0] * kernel[1] * (1 if operation.type.startswith("Depthwise") else kernel[2])
    return 2 * int(np.prod(shapes[2])) * terms
