"""Small models of both tasks, and the tags of their metrics."""

from __future__ import annotations

import small_batches
import small_records

from estimator_asr.experiment import config, experiment, model_directory, training_config

ACOUSTIC = config.AcousticConfig(
    encoder_layers=1, encoder_units=16, encoder_inner_units=16, attention_heads=2, subsampling_channels=4
)


LANGUAGE = small_batches.LANGUAGE  # without dropout, so that the loss falls within a few steps


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


def make_model(tmp_path, kind, **changes):
    path = str(tmp_path / "data")
    info = small_records.make_data(path)
    settings = experiment.ExperimentConfig.for_data(
        info,
        acoustic=changes.get("acoustic", ACOUSTIC),
        language=LANGUAGE,
        optimizer=training_config.OptimizerConfig(warmup_epochs=0),
        train=training_config.TrainConfig(model=kind, precision=changes.get("precision", "float32")),
    )
    return model_directory.create_or_check(str(tmp_path / "model"), settings, path), info, path
