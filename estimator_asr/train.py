"""Trains a model, or goes on with one that is there.

    python -m estimator_asr.train --flagfile=flags/thchs30/acoustic.flags --data_dir=DATA --model_dir=AM
    python -m estimator_asr.train --flagfile=flags/thchs30/language.flags --data_dir=TEXT --model_dir=LM

Several data directories, comma separated, are one corpus; they need the same vocabulary. SIGTERM saves a
checkpoint and ends with exit code 143; the same command continues. Watch with `tensorboard --logdir=AM`.
"""

from __future__ import annotations

import logging as standard_logging
import os
import warnings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow loads; errors still come as exceptions
os.environ.setdefault(
    "TF_XLA_FLAGS", "--tf_xla_cpu_global_jit"
)  # likewise; lets --xla reach the CPU, else idle

import tensorflow as tf
from absl import flags, logging

from estimator_asr import config as config_lib
from estimator_asr import model_directory
from estimator_asr.training import corpus_statistics, hooks, run_loop
from tfrecord_builder import config_flags, dataset_info, errors

_SECTIONS = {
    "acoustic": config_lib.AcousticConfig,
    "language": config_lib.LanguageConfig,
    "optimizer": config_lib.OptimizerConfig,
    "input": config_lib.InputConfig,
    "train": config_lib.TrainConfig,
}
_EXIT_TERMINATED = 128 + 15  # as the shell shows a process that SIGTERM ended


def define_flags() -> None:
    """Defines --data_dir, --model_dir and one flag per config field."""
    flags.DEFINE_list("data_dir", None, "data directories made by tfrecord_builder.build", required=True)
    flags.DEFINE_string("model_dir", None, "where the model is made or continued", required=True)
    for section in _SECTIONS.values():
        config_flags.define(section)


def main(argv: list[str]) -> int:
    """Trains with the settings of the flags; returns the exit code."""
    _set_up_logging()
    sections = {name: config_flags.from_flags(section) for name, section in _SECTIONS.items()}
    data_dirs, model_dir = flags.FLAGS.data_dir, flags.FLAGS.model_dir
    infos = [dataset_info.DatasetInfo.load(data_dir) for data_dir in data_dirs]
    config = build_config(sections, infos, data_dirs)
    model = model_directory.create_or_check(model_dir, config, data_dirs[0])
    for info, data_dir in zip(infos, data_dirs):
        model_directory.check_data(model, info, data_dir)
    logging.info("config: %s", model.config.settings_to_json())
    tf.compat.v1.disable_eager_execution()
    try:
        run_loop.train(model, infos, data_dirs)
    except hooks.Terminated:
        logging.warning("SIGTERM: a checkpoint is saved in %s; the same command continues", model_dir)
        return _EXIT_TERMINATED
    return 0


def build_config(
    sections: dict, infos: list[dataset_info.DatasetInfo], data_dirs: list[str]
) -> config_lib.ExperimentConfig:
    """Joins the settings of the flags with what the data says of itself.

    Raises:
        errors.UserError: an acoustic model cannot be trained on text.
    """
    if not data_dirs:
        raise errors.UserError("train: --data_dir is empty, expected a data directory; give one")
    first, is_acoustic = infos[0], sections["train"].model == "acoustic"
    if is_acoustic and first.frontend is None:
        raise errors.UserError(
            f"{data_dirs[0]}: holds text, expected audio features for --model=acoustic; "
            "give another --data_dir, or --model=language"
        )
    mean, stddev = corpus_statistics.combine(infos, run_loop.TRAIN_SPLIT) if is_acoustic else ((), ())
    return config_lib.ExperimentConfig(
        model=sections["train"].model,
        frontend=first.frontend if is_acoustic else None,
        unit=first.unit,
        tokens_sha256=first.tokens_sha256,
        characters_sha256=first.characters_sha256,
        readings_sha256=first.readings_sha256,
        feature_mean=mean,
        feature_stddev=stddev,
        **sections,
    )


def _set_up_logging():
    """Our lines with the time; of TensorFlow's only errors: its warnings are about its own deprecations."""
    logging.set_verbosity(logging.INFO)
    logging.get_absl_handler().setFormatter(standard_logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    tf.get_logger().setLevel(standard_logging.ERROR)
    warnings.filterwarnings("ignore", module="tensorflow")


if __name__ == "__main__":
    errors.run_program(main, define_flags)
