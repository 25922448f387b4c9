"""The flags of estimator_asr.train that are not settings (directories, --size), and headings for --help."""

from __future__ import annotations

import dataclasses

from estimator_asr.experiment import config as config_lib
from tfrecord_builder.program import config_flags

# Shapes of the encoder: small is for a few hours of audio, and large is for 150 hours of audio and a GPU.
SIZES = {
    "small": {"encoder_layers": 4, "encoder_units": 192, "encoder_inner_units": 512},
    "base": {"encoder_layers": 6, "encoder_units": 256, "encoder_inner_units": 512},
    "large": {"encoder_layers": 12, "encoder_units": 256, "encoder_inner_units": 1024},
}
# Shapes of the punctuation model: small is for texts from a small grammar, and base is for all other texts.
PUNCTUATION_SIZES = {
    "small": config_lib.PunctuationConfig(layers=2, units=96, inner_units=192, ngram_rows=16381),
    "base": config_lib.PunctuationConfig(),
    "large": config_lib.PunctuationConfig(layers=6),
}
_SHAPES = ", ".join(f"{'/'.join(map(str, shape.values()))} ({size})" for size, shape in SIZES.items())
# Flags that --help lists, grouped by what a user wants to do; --helpfull lists all flags.
GROUPS = {
    "What to train": ("data_dir", "model_dir", "model", "warm_start_from", "seed"),
    "The model": (
        *("size", "encoder", "chunk_frames", "trainable_blocks", "decoder_layers", "ctc_weight"),
        "language_layers",
    ),
    "Data and batches": ("batch_frames", "batch_tokens", "gradient_accumulation_steps"),
    "Learning rate": (
        *("learning_rate", "warmup_epochs", "schedule", "decay_boundary_epochs", "decay_factors"),
        "decay_rate",
    ),
    "Regularisation and augmentation": (
        *("spec_augment", "acoustic_dropout", "language_dropout", "token_noise", "clip_norm"),
    ),
    "When to evaluate, save and stop": (
        *("train_epochs", "train_steps", "save_checkpoints_steps", "keep_best_checkpoints"),
        "early_stopping_evaluations",
    ),
    "When training goes wrong": ("overfit_batches", "skip_bad_batches"),
    "Hardware": ("precision", "xla"),
}


@dataclasses.dataclass(frozen=True)
class RunConfig(config_flags.Checked):
    """The directories of a training run, and the size of the model."""

    data_dir: tuple[str, ...] = config_flags.setting(
        (), "comma-separated data directories, written by tfrecord_builder.build", required=True
    )
    model_dir: str = config_flags.setting(
        "",
        "model directory; created if it does not exist, otherwise training continues in it",
        required=True,
        checkpoints=True,
    )
    size: str = config_flags.setting(
        "base",
        f"shape of the acoustic model as encoder_layers/encoder_units/encoder_inner_units: {_SHAPES}; the "
        "flags with these names take precedence; or shape of the punctuation model",
        choices=tuple(SIZES),
        presets=SIZES,
    )


def apply_size(run_config: RunConfig, settings: config_lib.Settings) -> config_lib.Settings:
    """Returns the settings with the punctuation model's shape for --size."""
    return dataclasses.replace(settings, punctuation=PUNCTUATION_SIZES[run_config.size])
