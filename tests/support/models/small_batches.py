"""Batches of small records as the model_fn gets them, and models without dropout to learn them."""

from __future__ import annotations

import dataclasses

import loop_models
import numpy as np
import small_records

from estimator_asr.experiment import config, experiment, model_directory, training_config

ACOUSTIC = config.AcousticConfig(
    encoder_layers=1,
    encoder_units=16,
    encoder_inner_units=16,
    attention_heads=2,
    subsampling_channels=4,
    acoustic_dropout=0.0,
)
LANGUAGE = dataclasses.replace(loop_models.LANGUAGE, ngram_dropout=0.0, language_dropout=0.0)


def make_model(directory, kind):
    info = small_records.make_data(f"{directory}/data", num_shards=1)
    settings = experiment.ExperimentConfig.for_data(
        info, acoustic=ACOUSTIC, language=LANGUAGE, train=training_config.TrainConfig(model=kind)
    )
    return model_directory.create_or_check(f"{directory}/model", settings, f"{directory}/data")


def make_part(records, rows):
    """Features of some rows, padded to the longest of them."""
    chosen = [None if row is None else records[row] for row in rows]
    ids = [[] if record is None else list(record.token_ids) for record in chosen]
    characters = [[] if record is None else list(record.character_ids) for record in chosen]
    empty = np.zeros([0, small_records.FRONTEND.num_bins])
    fbank = [empty if record is None else record.fbank for record in chosen]
    return {
        "fbank": np.float32(pad(fbank)),
        "num_frames": np.int32([len(values) for values in fbank]),
        "token_ids": np.int32(pad(ids)),
        "num_tokens": np.int32([len(values) for values in ids]),
        "character_ids": np.int32(pad(characters)),
        "num_characters": np.int32([len(values) for values in characters]),
        "seed": np.int64([1, 0]),
    }


def pad(rows):
    rows = [np.asarray(row) for row in rows]
    widest = max(1, *(len(row) for row in rows))
    return np.stack([np.pad(row, [[0, widest - len(row)], *[[0, 0]] * (row.ndim - 1)]) for row in rows])
