"""Fills TensorBoard's HPARAMS tab, which compares the settings and dev metrics of several runs.

TensorBoard keeps the first settings that it finds for a run. To make the tab show the latest settings, they
are written to a separate event file, which is replaced whenever training starts in the model directory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import os
import time
from collections.abc import Iterator

import tensorflow as tf
from tensorboard.plugins.hparams import api_pb2, summary

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import experiment, task_spec, training_config
from estimator_asr.training import stopping
from tfrecord_builder.program import config_flags

_SUFFIX = ".hparams"
# The fields of TrainConfig that affect the trained model.
_TRAIN_FIELDS = ("model", "train_steps", "train_epochs", "seed", "precision", "warm_start_from")
_NUMBERS = ("int", "float", "Optional[int]", "Optional[float]")


@contextlib.contextmanager
def session(model_dir: str, config: experiment.ExperimentConfig) -> Iterator[None]:
    """Shows the run as running inside the block, then as finished, or as failed if the block raised an error.

    After SIGTERM, the run is still shown as running, because the same command continues it.
    """
    values = [_describe(config.spec), summary.session_start_pb(flatten(config))]
    _write(model_dir, values)
    status = api_pb2.STATUS_FAILURE
    try:
        yield
        status = api_pb2.STATUS_SUCCESS
    except stopping.Terminated:
        status = api_pb2.STATUS_RUNNING
        raise
    finally:
        _write(model_dir, [*values, summary.session_end_pb(status)])


def flatten(config: experiment.ExperimentConfig) -> dict:
    """Returns all settings except those that are None, as bool, float or str, keyed by flag name."""
    values = {
        field.name: getattr(getattr(config, section), field.name) for section, field in _fields(config.model)
    }
    return {name: _to_value(value) for name, value in values.items() if value is not None}


def _fields(*models):
    """Yields (section, field) for each setting of the models, optimizer, input and training."""
    for section in (*models, "optimizer", "input"):
        for field in dataclasses.fields(getattr(config_lib.Settings, section)):
            if config_flags.is_flag(field):
                yield section, field
    for field in dataclasses.fields(training_config.TrainConfig):
        if field.name in _TRAIN_FIELDS:
            yield "train", field


def _to_value(value):
    if isinstance(value, tuple):
        return ",".join(f"{item:g}" for item in value)
    return value if isinstance(value, (bool, str)) else float(value)


def _describe(spec):
    """Describes the columns for all kinds of models, because TensorBoard uses only one run's description."""
    # TensorBoard puts columns that are marked `differs` first, and sorts the others by name.
    settings = [
        api_pb2.HParamInfo(name=field.name, type=_type(field), differs=field.name in spec.main_settings)
        for _, field in _fields(*task_spec.SPECS)
    ]
    others = (other.error_rate for other in task_spec.SPECS.values() if other != spec)
    metrics = [
        api_pb2.MetricInfo(
            name=api_pb2.MetricName(group="eval", tag=tag),  # Estimator writes dev metrics to eval/
            display_name=f"dev {tag}",
            dataset_type=api_pb2.DATASET_VALIDATION,
        )
        for tag in (spec.error_rate, "avg-loss", *others)
    ]
    return summary.experiment_pb(settings, metrics)


def _type(field):
    if field.type in _NUMBERS:
        return api_pb2.DATA_TYPE_FLOAT64
    return api_pb2.DATA_TYPE_BOOL if field.type == "bool" else api_pb2.DATA_TYPE_STRING


def _write(model_dir, values):
    """Replaces the event file with a new file, which even a running TensorBoard will read."""
    old = glob.glob(os.path.join(glob.escape(model_dir), f"events.*{_SUFFIX}"))
    now = time.time()
    path = os.path.join(model_dir, f"events.out.tfevents.{int(now):010d}.0{_SUFFIX}")
    unfinished = os.path.join(model_dir, "hparams.incomplete")  # TensorBoard ignores files with this name
    with tf.io.TFRecordWriter(unfinished) as writer:
        writer.write(tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
        for value in values:
            writer.write(tf.compat.v1.Event(wall_time=now, step=0, summary=value).SerializeToString())
    os.replace(unfinished, path)
    for old_path in set(old) - {path}:
        os.remove(old_path)
