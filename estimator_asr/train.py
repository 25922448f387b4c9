"""Trains a model, or continues training in an existing model directory.

    python -m estimator_asr.train --flagfile=flags/thchs30/acoustic.flags --data_dir=DATA --model_dir=AM
    python -m estimator_asr.train --flagfile=flags/thchs30/language.flags --data_dir=TEXT --model_dir=LM

Several data directories, separated by commas, form one corpus; they must share one vocabulary. On SIGTERM,
training saves a checkpoint and ends with exit code 143; the same command continues it. To watch the progress,
run `tensorboard --logdir=AM`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging as standard_logging
import os
import shlex
import sys
import warnings
from collections.abc import Sequence

from tfrecord_builder.program import lazy_tensorflow

os.environ.setdefault("TF_XLA_FLAGS", "--tf_xla_cpu_global_jit")  # makes --xla work on the CPU
lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf
from absl import logging

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import experiment, model_directory, task_spec, train_command
from estimator_asr.inputs import splits
from estimator_asr.models.tasks import tasks
from estimator_asr.monitoring.diagnostics import observers
from estimator_asr.training import directory_lock, loop, plan, stopping
from estimator_asr.training.distributed import cluster as cluster_lib
from estimator_asr.training.distributed import strategies
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import program, urls

_EXIT_TERMINATED = 128 + 15  # the exit code that shells report for a process ended by SIGTERM
_EXIT_FAILED = os.EX_SOFTWARE  # exit code of a cluster's worker; unlike 1, it means that a restart may help


def main(run_config: train_command.RunConfig, settings: config_lib.Settings) -> int:
    _set_up_logging()
    # Messages append flags to this command: if a flag is repeated, its last value counts.
    command = shlex.join(["python", "-m", "estimator_asr.train", *sys.argv[1:]])
    settings = train_command.apply_size(run_config, settings)
    return run(run_config.data_dir, run_config.model_dir, settings, command)


def run(data_dirs: Sequence[str], model_dir: str, settings: config_lib.Settings, command: str) -> int:
    """Trains a model; returns the exit code.

    `command` is the command line that started the program, which messages repeat. Raises errors.UserError if
    the settings, the data and the model directory do not fit together; in that case, nothing is changed.
    """
    infos = dataset_info.load_all(data_dirs)
    config = build_config(settings, infos, data_dirs)
    cluster = cluster_lib.read_tf_config()
    strategies.check_hardware(config.train, cluster)
    directory_lock.check_usable(model_dir)
    for info, data_dir in zip(infos, data_dirs):
        owner = model_dir if os.path.exists(model_dir) else data_dirs[0]
        model_directory.check_data(owner, config, info, data_dir)
    tf.compat.v1.disable_eager_execution()
    if config.watch.overfit_batches:
        from estimator_asr.monitoring.diagnostics import overfit

        logging.info("overfit: %s", overfit.run_overfit_test(config, infos, data_dirs, command))
        return 0
    open_model, lock = model_directory.open_new, contextlib.nullcontext()
    if cluster is None or cluster.is_chief:  # only these processes write to the model directory
        wait_seconds = directory_lock.CLUSTER_WAIT_SECONDS if cluster else 0.0
        open_model, lock = model_directory.check, directory_lock.lock_directory(model_dir, wait_seconds)
    with lock, directory_lock.clear_copies(model_dir, cluster):
        model = open_model(model_dir, config, data_dirs[0])
        return _train(observers.Training(model, infos, data_dirs, command, cluster))


def _train(training):
    model, infos, data_dirs, _, cluster = training
    try:
        loop.train(model, infos, data_dirs, cluster, training.observe)
    except stopping.Terminated:
        logging.warning("SIGTERM: a checkpoint was saved in %s; run the same command to continue", model.path)
        return _EXIT_TERMINATED
    except errors.UserError:
        raise
    except Exception as error:
        if cluster is None or errors.is_lasting(error):
            raise
        logging.exception("%s failed", cluster.name)  # usually because another worker failed
        return _EXIT_FAILED
    return 0


def build_config(
    settings: config_lib.Settings, infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str]
) -> experiment.ExperimentConfig:
    """Returns the experiment's settings: the values of the flags, and the values that follow from the data.

    Raises errors.UserError if the data lack audio, characters or token counts that the model needs, or if the
    pretrained encoder is missing or damaged.
    """
    spec = task_spec.SPECS[settings.train.model]
    for info, data_dir in zip(infos, data_dirs):
        splits.check_marks(data_dir, info, spec)
    if spec.reads_audio and infos[0].frontend is None:
        raise errors.UserError(
            f"{data_dirs[0]} contains text, but --model=acoustic needs audio features; "
            "pass another --data_dir, or --model=language"
        )
    train = [info.splits[plan.TRAIN_SPLIT] for info in infos if plan.TRAIN_SPLIT in info.splits]
    if spec.writes_characters and not any(split.num_characters for split in train):
        raise errors.UserError(
            f"{','.join(data_dirs)}: no characters are paired with tokens, but --model=language needs such "
            "pairs; build the data with --token_type=syllable or toneless from a corpus with transcripts"
        )
    config = experiment.ExperimentConfig.for_data(infos[0], **vars(settings))
    if spec.reads_audio and config.acoustic.encoder in pretrained_encoder.FAMILIES:
        config = _find_pretrained(config, data_dirs[0])
    config = tasks.complete(config)
    is_sampled = spec.reads_audio and config.acoustic.softmax != config_lib.FULL
    return sort_tokens(config, infos, data_dirs) if is_sampled else config


def sort_tokens(
    config: experiment.ExperimentConfig, infos: Sequence[dataset_info.DatasetInfo], data_dirs: Sequence[str]
) -> experiment.ExperimentConfig:
    """Returns the settings with the tokens sorted by frequency, as --softmax=sampled and nce require.

    Raises errors.UserError if a directory lacks token counts or the vocabulary is smaller than --num_sampled.
    """
    for info, data_dir in zip(infos, data_dirs):
        if not info.token_counts:
            raise errors.UserError(
                f"{data_dir}: {dataset_info.INFO_FILE} has no token_counts, which "
                f"--softmax={config.acoustic.softmax} needs; build the data again, or omit --softmax"
            )
    counts = [sum(token_counts) for token_counts in zip(*(info.token_counts for info in infos))]
    if config.acoustic.num_sampled > len(counts):
        raise errors.UserError(
            f"train: --num_sampled is {config.acoustic.num_sampled}, expected at most {len(counts)} (size of "
            "the vocabulary); omit --softmax to score all tokens"
        )
    by_frequency = sorted(range(len(counts)), key=lambda token: -counts[token])
    return dataclasses.replace(config, tokens_by_frequency=tuple(by_frequency))


def _find_pretrained(config, data_dir):
    """Returns the settings with the pretrained encoder from --warm_start_from or from the data."""
    from estimator_asr.pretrained import warm_start

    train, acoustic = config.train, config.acoustic
    if config.frontend.encoder:  # the data directory has the weights of the trainable blocks
        source = train.warm_start_from or (data_dir if acoustic.trainable_blocks else None)
        if source and urls.is_remote(source):
            raise errors.UserError(
                f"train: the weights for --trainable_blocks={acoustic.trainable_blocks} must be on a local "
                f"disk, but --data_dir={source} is in an object store; pass --warm_start_from with the "
                "directory passed to estimator_asr.encode as --weights, or --trainable_blocks=0"
            )
        return dataclasses.replace(config, train=dataclasses.replace(train, warm_start_from=source))
    applied = warm_start.find_pretrained(train.warm_start_from, acoustic.trainable_blocks)
    return dataclasses.replace(config, acoustic=dataclasses.replace(acoustic, pretrained=applied))


def _set_up_logging():
    """Adds the time to our log lines; hides TensorFlow's warnings, which are about its own deprecations."""
    logging.set_verbosity(logging.INFO)
    logging.get_absl_handler().setFormatter(standard_logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    tf.get_logger().setLevel(standard_logging.ERROR)
    warnings.filterwarnings("ignore", module="tensorflow")


if __name__ == "__main__":
    program.run(main, train_command.RunConfig, config_lib.Settings, groups=train_command.GROUPS)
