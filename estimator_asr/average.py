"""Averages the weights of the best checkpoints; the average usually makes fewer errors than any of them.

    python -m estimator_asr.average --model_dir=AM [--num_checkpoints=5]

The checkpoints are read from AM/best. The result is a model directory, for `evaluate --model_dir=AM/averaged`
and `export --acoustic_model_dir=AM/averaged`; it replaces any older AM/averaged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import checkpoints, model_directory
from estimator_asr.training.checkpointing import best_checkpoints
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program
from tfrecord_builder.storage import directories, locks

DIRECTORY = "averaged"


@dataclasses.dataclass(frozen=True)
class AverageConfig(config_flags.Checked):
    """Flags of average."""

    model_dir: str = config_flags.setting(
        "", "model directory, acoustic or language", required=True, checkpoints=True
    )
    num_checkpoints: int = config_flags.setting(
        5,
        "maximum number of checkpoints to average, taken from best/ in order of their error rates on dev",
        positive=True,
    )


def average(config: AverageConfig) -> tuple[str, list[best_checkpoints.KeptCheckpoint]]:
    """Writes the averaged model directory; returns its path and the averaged checkpoints, best first.

    Raises errors.UserError if there are no best checkpoints, one is damaged, or their variables differ.
    """
    model = model_directory.open_model_directory(config.model_dir)
    entries, read_locks = _lock_best(config)
    prefixes = [best_checkpoints.prefix(model.path, step) for step in sorted(entry.step for entry in entries)]
    checkpoints.check(prefixes[-1], model)
    values = average_variables(prefixes)
    for lock in read_locks:
        lock.release()
    path = os.path.join(model.path, DIRECTORY)
    busy = f"--model_dir: another average process is writing {path}; wait until it ends"
    with locks.exclusive(f"{path}.lock", busy, is_temporary=True), directories.writing(path) as incomplete:
        model_directory.copy_description(model, incomplete)
        checkpoints.save(values, checkpoints.prefix_of(incomplete, checkpoints.step_of(prefixes[-1])))
    return path, entries


def _lock_best(config):
    """Returns the best checkpoints and the locks that keep a training run from deleting them."""
    while True:
        entries = best_checkpoints.read_best(config.model_dir)[: config.num_checkpoints]
        if not entries:
            raise errors.UserError(
                f"{os.path.join(config.model_dir, best_checkpoints.DIRECTORY)} has no best checkpoints; "
                "train with a dev split first"
            )
        with contextlib.suppress(FileNotFoundError):  # raised if training has just replaced a checkpoint
            prefixes = [best_checkpoints.prefix(config.model_dir, entry.step) for entry in entries]
            return entries, [locks.ReadLock(f"{prefix}.index") for prefix in prefixes]


def average_variables(prefixes: Sequence[str]) -> dict[str, np.ndarray]:
    """Averages the model's variables over checkpoints of one training run; the oldest checkpoint comes first.

    Floats, including the moving averages of batch norm, are summed in float64 and keep their dtype. All other
    variables, such as the global step, are copied from the last checkpoint. The optimizer's are omitted.
    """
    shapes = [checkpoints.read_shapes(prefix) for prefix in prefixes]
    names = checkpoints.find_model_variables(shapes[-1])
    for prefix, others in zip(prefixes, shapes):
        if any(others.get(name) != shapes[-1][name] for name in names):
            raise errors.UserError(
                f"{prefix} and {prefixes[-1]} have different variables, so they do not belong to the same "
                f"model; remove {os.path.basename(prefix)} from best_checkpoints.json"
            )
    readers = [tf.train.load_checkpoint(prefix) for prefix in prefixes]
    return {name: _mean([reader.get_tensor(name) for reader in readers]) for name in names}


def _mean(values):
    newest = np.asarray(values[-1])
    if newest.dtype.kind != "f":
        return newest
    return np.mean(np.stack(values), axis=0, dtype=np.float64).astype(newest.dtype)


def main(config: AverageConfig) -> None:
    tf.get_logger().setLevel("ERROR")
    path, entries = average(config)
    if len(entries) < config.num_checkpoints:
        print(f"only {len(entries)} of {config.num_checkpoints} checkpoints are available")
    for entry in entries:
        print(f"step {entry.step}: error rate on dev {100 * entry.error_rate:.2f} %")
    print(f"average of {len(entries)} checkpoints: {path}")


if __name__ == "__main__":
    program.run(main, AverageConfig)
