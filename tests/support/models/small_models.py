"""Model directories without a checkpoint, next to data that they can learn, and batches of their records."""

import dataclasses

import numpy as np
import small_records
import tensorflow as tf

from estimator_asr.experiment import checkpoints, config, experiment, model_directory, training_config

ACOUSTIC = config.AcousticConfig(
    encoder_layers=1, encoder_units=16, encoder_inner_units=16, attention_heads=2, subsampling_channels=4
)
LANGUAGE = config.LanguageConfig(
    language_layers=1,
    language_units=16,
    language_inner_units=16,
    language_heads=2,
    ngram_rows=31,
    ngram_units=4,
)
PUNCTUATION = config.PunctuationConfig(
    layers=1, units=16, inner_units=16, heads=2, ngram_rows=31, ngram_units=4
)
# Without dropout, the loss falls within a few steps, and is the same on several replicas as on one device.
WITHOUT_DROPOUT = {
    "acoustic": dataclasses.replace(ACOUSTIC, acoustic_dropout=0.0),
    "language": dataclasses.replace(LANGUAGE, ngram_dropout=0.0, language_dropout=0.0),
}
# Tags of the metrics.
FIGURES = {
    "acoustic": {
        *("avg-loss", "ctc-loss", "decoder-loss", "token-error-rate", "teacher-forced-error-rate"),
        *("blank-fraction", "edge-fraction", "length-ratio", "repeated-fraction", "too-long-fraction"),
        "unknown-fraction",
    },
    "language": {
        *("avg-loss", "character-error-rate", "repeated-fraction", "used-label-fraction", "unknown-fraction")
    },
}
# Rows of each batch that each of two replicas gets; None is a row without frames and tokens.
_PARTS = (([0, 1, 2], [3, 4, 5]), ([0], [1, 2, 3, 4, 5]), ([0, 1, 2, 3, 4, 5], [None]))


def create_or_check(path, settings, data_dir) -> model_directory.ModelDirectory:
    """Creates a model directory, or opens it to continue, as train does."""
    model = model_directory.check(path, settings, data_dir)
    model_directory.write(model, data_dir)
    return model


def make_model(directory, kind, *, precision="float32", acoustic=ACOUSTIC, **data):
    """Returns the model, the description of its data and the data directory; `data` as in make_data."""
    data_dir = f"{directory}/data"
    info = small_records.make_data(data_dir, **data)
    settings = experiment.ExperimentConfig.for_data(
        info,
        acoustic=acoustic,
        language=WITHOUT_DROPOUT["language"],
        optimizer=training_config.OptimizerConfig(warmup_epochs=0),
        train=training_config.TrainConfig(model=kind, precision=precision),
    )
    return create_or_check(f"{directory}/model", settings, data_dir), info, data_dir


def make_without_dropout(directory, kind) -> model_directory.ModelDirectory:
    return make_model(directory, kind, acoustic=WITHOUT_DROPOUT["acoustic"], num_shards=1)[0]


def make_for_loop(directory, splits=(("train", 12), ("dev", 3)), *, optimizer=None, **train):
    """Returns the arguments of loop.train for a language model."""
    data_dir = f"{directory}/data"
    info = small_records.make_data(data_dir, splits=splits, with_audio=False)
    settings = experiment.ExperimentConfig.for_data(
        info,
        language=LANGUAGE,
        optimizer=optimizer or training_config.OptimizerConfig(warmup_epochs=0),
        input=config.InputConfig(batch_tokens=6, num_buckets=2),
        train=training_config.TrainConfig(model="language", eval_throttle_seconds=0, **train),
        watch=training_config.WatchConfig(try_worst_batch=False),
        display=training_config.DisplayConfig(show_utterances=0),
    )
    return create_or_check(f"{directory}/model", settings, data_dir), [info], [data_dir]


def latest_step(model) -> int:
    return int(tf.train.load_variable(checkpoints.latest(model.path), "global_step"))


def make_input_fn(is_whole: bool):
    """Returns an input_fn for batches of six rows, either whole or split into one part for each replica."""
    parts = []
    for index, rows in enumerate(_PARTS):
        own = small_records.make_records("train", 18)[6 * index : 6 * index + 6]
        parts += [make_part(own, part) for part in ([range(6)] if is_whole else rows)]

    def input_fn():
        datasets = [tf.data.Dataset.from_tensors((part, part)) for part in parts]
        dataset = datasets[0]
        for other in datasets[1:]:
            dataset = dataset.concatenate(other)
        return dataset.repeat()

    return input_fn


def make_part(records, rows) -> dict[str, np.ndarray]:
    """Returns the features of some rows, padded to the longest of them."""
    chosen = [None if row is None else records[row] for row in rows]
    ids = [[] if record is None else list(record.token_ids) for record in chosen]
    characters = [[] if record is None else list(record.character_ids) for record in chosen]
    empty = np.zeros([0, small_records.FRONTEND.num_bins])
    fbank = [empty if record is None else record.fbank for record in chosen]
    return {
        "fbank": np.float32(_pad(fbank)),
        "num_frames": np.int32([len(values) for values in fbank]),
        "token_ids": np.int32(_pad(ids)),
        "num_tokens": np.int32([len(values) for values in ids]),
        "character_ids": np.int32(_pad(characters)),
        "num_characters": np.int32([len(values) for values in characters]),
        "seed": np.int64([1, 0]),
    }


def _pad(rows):
    rows = [np.asarray(row) for row in rows]
    widest = max(1, *(len(row) for row in rows))
    return np.stack([np.pad(row, [[0, widest - len(row)], *[[0, 0]] * (row.ndim - 1)]) for row in rows])
