"""The settings of a run beside its figures on dev, for TensorBoard's HParams tab over several runs.

TensorBoard keeps the first settings that it finds of a run. So they have an event file of their own, which
every start of the model directory replaces: the tab shows the settings of the last one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
import time
from collections.abc import Iterator
from typing import Union

import tensorflow as tf
from tensorboard.plugins.hparams import api_pb2, summary

from estimator_asr import config as config_lib
from estimator_asr import experiment, task_spec, training_config
from estimator_asr.training import stopping

_SUFFIX = ".hparams"
_EVALUATIONS = "eval"  # the folder into which an Estimator writes its figures
_LOSS = "avg-loss"
_TRAIN_FIELDS = ("model", "train_steps", "train_epochs", "seed", "precision", "warm_start_from")
_NUMBERS = ("int", "float", "Optional[int]", "Optional[float]")

Value = Union[bool, float, str]


@contextlib.contextmanager
def session(model_dir: str, config: experiment.ExperimentConfig) -> Iterator[None]:
    """Shows the run as running, after the block as finished, and as failed if the block raises.

    A run that SIGTERM ended stays one that is running: the same command continues it.

    Args:
        model_dir: where the event file is written.
        config: settings of the run.
    """
    summaries = [_describe(config.spec), summary.session_start_pb(flatten(config))]
    _write(model_dir, summaries)
    status = api_pb2.STATUS_FAILURE
    try:
        yield
        status = api_pb2.STATUS_SUCCESS
    except stopping.Terminated:
        status = api_pb2.STATUS_RUNNING
        raise
    finally:
        _write(model_dir, [*summaries, summary.session_end_pb(status)])


def flatten(config: experiment.ExperimentConfig) -> dict[str, Value]:
    """Returns flag name to value of the model, its optimizer and its input; what is not set is left out."""
    values = {}
    for section, fields in _fields((config.model, "optimizer", "input")):
        values.update({field.name: getattr(getattr(config, section), field.name) for field in fields})
    return {name: _to_value(value) for name, value in values.items() if value is not None}


def _fields(sections):
    """The name and the fields of each section, and those of train that a result depends on."""
    for section in sections:
        yield section, dataclasses.fields(config_lib.SECTIONS[section])
    of_train = dataclasses.fields(training_config.TrainConfig)
    yield "train", [field for field in of_train if field.name in _TRAIN_FIELDS]


def _to_value(value):
    if isinstance(value, tuple):
        return ",".join(f"{item:g}" for item in value)
    return value if isinstance(value, (bool, str)) else float(value)


def _describe(spec):
    """The columns, those of both models: of several runs TensorBoard takes the columns of any one."""
    sections = _fields((*task_spec.SPECS, "optimizer", "input"))
    all_fields = [field for _, fields in sections for field in fields]
    # TensorBoard puts first what is said to differ, and else goes by the alphabet.
    infos = [
        api_pb2.HParamInfo(name=each.name, type=_type(each), differs=each.name in spec.main_settings)
        for each in all_fields
    ]
    others = (other.error_rate for other in task_spec.SPECS.values() if other != spec)
    tags = [spec.error_rate, _LOSS, *others]
    return summary.experiment_pb(infos, [_metric(tag) for tag in tags])


def _type(field):
    if field.type in _NUMBERS:
        return api_pb2.DATA_TYPE_FLOAT64
    return api_pb2.DATA_TYPE_BOOL if field.type == "bool" else api_pb2.DATA_TYPE_STRING


def _metric(tag):
    name = api_pb2.MetricName(group=_EVALUATIONS, tag=tag)
    return api_pb2.MetricInfo(name=name, display_name=f"dev {tag}", dataset_type=api_pb2.DATASET_VALIDATION)


def _write(model_dir, summaries):
    """Replaces the event file; a running TensorBoard takes the new one for the next of the run."""
    before = glob.glob(os.path.join(glob.escape(model_dir), f"events.*{_SUFFIX}"))
    now = time.time()
    path = os.path.join(model_dir, f"events.out.tfevents.{int(now):010d}.0{_SUFFIX}")
    unfinished = os.path.join(model_dir, "hparams.incomplete")
    with tf.io.TFRecordWriter(unfinished) as writer:
        writer.write(tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
        for each in summaries:
            writer.write(tf.compat.v1.Event(wall_time=now, step=0, summary=each).SerializeToString())
    os.replace(unfinished, path)
    for old in set(before) - {path}:
        os.remove(old)
