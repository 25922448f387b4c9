"""Our training step of the language model as the benchmark calls it, and the batch for both sides."""

from __future__ import annotations

import dataclasses

import numpy as np

from benchmarks.train_step import ours as train_step_ours
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory, task_spec, training_config
from tfrecord_builder.data import readings, vocabulary

_FIRST_CHARACTER = 0x4E00
_LABELS = ("character_ids", "num_characters")


@dataclasses.dataclass(frozen=True)
class Batch:
    """token_ids and character_ids, int32 [batch, length], of num_tokens, int32 [batch]."""

    token_ids: np.ndarray
    character_ids: np.ndarray
    num_tokens: np.ndarray


def make_model(
    config: config_lib.LanguageConfig, num_tokens: int, num_characters: int, num_candidates: int
) -> model_directory.ModelDirectory:
    """Returns a ModelDirectory without files; each token has num_candidates characters."""
    model = train_step_ours.make_model(config_lib.AcousticConfig(), num_tokens, "")
    written = [chr(_FIRST_CHARACTER + i) for i in range(num_characters - 1)]
    places = np.random.default_rng(0).integers(0, len(written), [num_tokens, num_candidates])
    pairs = {token: "".join(written[i] for i in row) for token, row in zip(model.tokens.tokens[1:], places)}
    train = training_config.TrainConfig(model="language")
    settings = dataclasses.replace(
        model.config, model="language", language=config, train=train, frontend=None
    )
    characters = vocabulary.Vocabulary(["<unk>", *written])
    return dataclasses.replace(
        model, config=settings, characters=characters, readings=readings.Readings(pairs)
    )


def make_batch(model: model_directory.ModelDirectory, batch_size: int, length: int) -> Batch:
    """Samples sentences of 90 to 100 % of the length, and one candidate for each token."""
    rng = np.random.default_rng(1)
    num_tokens = rng.integers(-(-9 * length // 10), length, batch_size, endpoint=True).astype(np.int32)
    num_tokens[0] = length
    is_real = np.arange(length) < num_tokens[:, None]
    token_ids = rng.integers(1, model.tokens.size, [batch_size, length]).astype(np.int32) * is_real
    candidates = [np.flatnonzero(row) for row in model.readings.mask(model.tokens, model.characters)]
    characters = np.array([[rng.choice(candidates[token]) for token in row] for row in token_ids], np.int32)
    return Batch(token_ids, characters * is_real, num_tokens)


def open_session(model: model_directory.ModelDirectory, batch: Batch) -> train_step_ours.Session:
    """Returns the training step on the batch."""
    features = {
        "token_ids": batch.token_ids,
        "num_tokens": batch.num_tokens,
        "character_ids": batch.character_ids,
        "num_characters": batch.num_tokens,
        "seed": np.int64([1, 2]),
    }
    plan = train_step_ours.make_plan(task_spec.LANGUAGE, *batch.token_ids.shape, batch.token_ids.shape[1])
    return train_step_ours.Session(model, lambda: train_step_ours.repeat(features, _LABELS), plan)
