"""Model directories without a checkpoint, as a new training makes them, and batches for a training step."""

import dataclasses
import os

import numpy as np
import small_models
import tensorflow as tf
import tiny_models

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import experiment, model_directory, task_spec, training_config
from estimator_asr.training import plan as plan_lib
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import dataset_info, vocabulary

TOKENS = vocabulary.Vocabulary(["<unk>", "ai4", "hao3", "ni3", "shi4"])  # ai4 is new, ma5 and tian1 are gone


def make_new_model(
    path: str,
    kind: str = "acoustic",
    *,
    tokens: vocabulary.Vocabulary = TOKENS,
    characters: vocabulary.Vocabulary = tiny_models.CHARACTERS,
    num_mel_bins: int = 20,
    hop_ms: float = 10.0,
    token_type: str = "syllable",
    acoustic: dict | None = None,
    language: dict | None = None,
    **train,
) -> model_directory.ModelDirectory:
    """Makes a model directory with the settings of tiny_models, except for the given settings."""
    files = {dataset_info.TOKENS_FILE: tokens, dataset_info.CHARACTERS_FILE: characters}
    files[dataset_info.READINGS_FILE] = tiny_models.READINGS
    os.makedirs(path)
    for file, content in files.items():
        content.save(os.path.join(path, file))
    experiment.ExperimentConfig(
        model=kind,
        acoustic=dataclasses.replace(small_models.ACOUSTIC, **(acoustic or {})),
        language=dataclasses.replace(small_models.LANGUAGE, **(language or {})),
        optimizer=training_config.OptimizerConfig(learning_rate=1e-12, warmup_epochs=0),
        input=config_lib.InputConfig(),
        train=training_config.TrainConfig(model=kind, **train),
        watch=training_config.WatchConfig(try_worst_batch=False),  # other shapes than build_input_fn
        frontend=frontend.FrontendConfig(num_mel_bins=num_mel_bins, hop_ms=hop_ms)
        if kind == "acoustic"
        else None,
        token_type=token_type,
        tokens_sha256=tokens.sha256,
        characters_sha256=characters.sha256,
        readings_sha256=tiny_models.READINGS.sha256,
    ).save(path)
    return model_directory.open_model_directory(path)


def plan() -> plan_lib.TrainingPlan:
    return plan_lib.one_utterance(task_spec.ACOUSTIC)


def build_input_fn(model: model_directory.ModelDirectory):
    """Returns an input_fn for batches of one utterance with the tokens 1 and 2."""
    ids, count = np.int32([[1, 2]]), np.int32([2])
    batch = {"token_ids": ids, "num_tokens": count, "character_ids": ids, "num_characters": count}
    batch["seed"] = np.int64([1, 0])
    keys = ("character_ids", "num_characters")
    if model.config.model == "acoustic":
        bins = model.config.frontend.num_bins
        batch["fbank"] = np.random.default_rng(0).normal(size=[1, 24, bins]).astype(np.float32)
        batch["num_frames"] = np.int32([24])
        keys = ("token_ids", "num_tokens")
    return lambda: tf.data.Dataset.from_tensors((batch, {key: batch[key] for key in keys})).repeat()
