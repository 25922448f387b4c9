"""Averages the weights of the best checkpoints: usually fewer errors than any one of them.

    python -m estimator_asr.average --model_dir=AM [--num_checkpoints=5]

AM/averaged is then a model directory of its own, for `evaluate --model_dir=AM/averaged` and
`export --acoustic_model_dir=AM/averaged`; an older one is replaced. The checkpoints are those of AM/best.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Sequence
from typing import Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow loads; errors still come as exceptions

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.checkpointing import averaging, best_checkpoints, checkpoints
from estimator_asr.checkpointing import locks as checkpoint_locks
from tfrecord_builder import config_flags, errors

DIRECTORY = "averaged"


@dataclasses.dataclass(frozen=True)
class AverageConfig:
    """Of what the mean is."""

    model_dir: Optional[str] = config_flags.setting(None, "model directory, acoustic or language")
    num_checkpoints: int = config_flags.setting(
        5, "checkpoints with the lowest error rate on dev that are averaged, of those in best/", positive=True
    )

    def __post_init__(self):
        config_flags.validate(self)
        if self.model_dir is None:
            raise errors.UserError("average: --model_dir is missing; give a directory.")


def average(config: AverageConfig) -> tuple[str, list[best_checkpoints.Entry]]:
    """Writes the averaged model directory; returns its path and what went in, best first.

    Raises:
        errors.UserError: there are no best checkpoints, or one is damaged.
    """
    model = model_directory.open_model_directory(config.model_dir)
    entries, locks = _lock_best(config)
    prefixes = [best_checkpoints.prefix(model.path, step) for step in sorted(entry.step for entry in entries)]
    checkpoints.check(prefixes[-1], model)
    path = os.path.join(model.path, DIRECTORY)
    values = averaging.average(prefixes)
    for lock in locks:
        lock.release()
    with _replacing(path) as beside:
        model_directory.copy_description(model, beside)
        averaging.save(values, checkpoints.prefix_of(beside, checkpoints.step_of(prefixes[-1])))
    return path, entries


def _lock_best(config: AverageConfig) -> tuple[Sequence, Sequence]:
    """The best checkpoints, none of which a training that runs meanwhile deletes."""
    while True:
        entries = best_checkpoints.read(config.model_dir)[: config.num_checkpoints]
        if not entries:
            raise errors.UserError(
                f"{os.path.join(config.model_dir, best_checkpoints.DIRECTORY)}: has no best checkpoints, "
                "expected those that training keeps; train with a dev split first."
            )
        paths = [best_checkpoints.prefix(config.model_dir, entry.step) for entry in entries]
        with contextlib.suppress(FileNotFoundError):  # replaced meanwhile: look again
            return entries, [checkpoint_locks.ReadLock(path) for path in paths]


@contextlib.contextmanager
def _replacing(path: str):
    """Gives a name for a directory that takes the place of `path` when the block ends without an error."""
    beside = f"{path}.incomplete"
    shutil.rmtree(beside, ignore_errors=True)  # of a run that was killed
    try:
        yield beside
        shutil.rmtree(path, ignore_errors=True)
        os.rename(beside, path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def define_flags() -> None:
    config_flags.define(AverageConfig)


def main(argv: list[str]) -> None:
    del argv  # no words are accepted
    tf.get_logger().setLevel("ERROR")
    config = config_flags.from_flags(AverageConfig)
    path, entries = average(config)
    if len(entries) < config.num_checkpoints:
        print(f"only {len(entries)} of {config.num_checkpoints} checkpoints are kept")
    for entry in entries:
        print(f"step {entry.step}: error rate on dev {100 * entry.error_rate:.2f} %")
    print(f"mean of {len(entries)}: {path}")


if __name__ == "__main__":
    errors.run_program(main, define_flags)
