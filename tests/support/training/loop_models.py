"""A language model and its data for tests of the loop."""

from __future__ import annotations

import small_records
import tensorflow as tf

from estimator_asr.experiment import checkpoints, config, experiment, model_directory, training_config

LANGUAGE = config.LanguageConfig(
    language_layers=1,
    language_units=16,
    language_inner_units=16,
    language_heads=2,
    ngram_rows=31,
    ngram_units=4,
)


def make_model(tmp_path, splits=(("train", 12), ("dev", 3)), *, optimizer=None, **train):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=splits, with_audio=False)
    settings = experiment.ExperimentConfig.for_data(
        info,
        language=LANGUAGE,
        optimizer=optimizer or training_config.OptimizerConfig(warmup_epochs=0),
        input=config.InputConfig(batch_tokens=6, num_buckets=2),
        train=training_config.TrainConfig(model="language", eval_throttle_seconds=0, **train),
        watch=training_config.WatchConfig(try_worst_batch=False),
        display=training_config.DisplayConfig(show_utterances=0),
    )
    return model_directory.create_or_check(str(tmp_path / "model"), settings, path), [info], [path]


def latest_step(model):
    return int(tf.train.load_variable(checkpoints.latest(model.path), "global_step"))
