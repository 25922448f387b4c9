"""Our training step as the benchmark calls it; the one place that knows the model_fn."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time

import numpy as np
import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr import estimator_api, experiment, model_directory
from estimator_asr.models import encoders
from estimator_asr.training import hooks, model_fn, step_hooks
from tfrecord_builder import frontend, vocabulary


def make_model(config: config_lib.AcousticConfig, num_tokens: int, path: str) -> model_directory.ModelDirectory:
    """Gives a model directory that nothing is read from; num_tokens without the blank."""
    tokens = vocabulary.Vocabulary(["<unk>", *(f"token{i}" for i in range(1, num_tokens))])
    settings = experiment.ExperimentConfig(
        model="acoustic",
        acoustic=config,
        language=config_lib.LanguageConfig(),
        optimizer=config_lib.OptimizerConfig(warmup_epochs=0),
        input=config_lib.InputConfig(),
        train=config_lib.TrainConfig(),
        frontend=frontend.FrontendConfig(),
        unit="word",
        tokens_sha256=tokens.sha256,
        characters_sha256="",
        readings_sha256="",
    )
    return model_directory.ModelDirectory(path, settings, tokens, None, None)
