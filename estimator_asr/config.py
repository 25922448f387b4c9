"""Every hyperparameter once: frozen dataclasses whose fields are the flags of train.py."""

from __future__ import annotations

import dataclasses
from typing import Optional

from estimator_asr import loop_config
from tfrecord_builder import config_flags, errors

DEFAULT_EPOCHS = 30


def _fraction(default: float, help: str) -> float:
    """Describes a fraction of what training hides from a model; it may change from run to run."""
    return config_flags.setting(default, help, minimum=0, maximum=0.9, training_only=True)


@dataclasses.dataclass(frozen=True)
class AcousticConfig:
    """Speech to tokens: encoder, CTC head and attention decoder."""

    encoder: str = config_flags.setting(
        "conformer", "architecture of the encoder", choices=("conformer", "transformer", "cnn")
    )
    encoder_layers: int = config_flags.setting(6, "blocks of encoder conformer or transformer", minimum=1)
    encoder_units: int = config_flags.setting(256, "width of the encoder and decoder", positive=True)
    encoder_inner_units: int = config_flags.setting(
        512, "width between the two layers of the encoder's and decoder's feed forward", positive=True
    )
    attention_heads: int = config_flags.setting(
        4, "heads of encoder and decoder attention; divides --encoder_units", positive=True
    )
    conv_kernel_size: int = config_flags.setting(
        15, "encoder conformer: width of the depthwise convolution, in subsampled frames; odd", positive=True
    )
    subsampling_channels: int = config_flags.setting(
        32,
        "encoders conformer and transformer: channels of the convolutions that subsample by 4",
        positive=True,
    )
    acoustic_dropout: float = _fraction(0.1, "fraction of values zeroed in encoder and decoder in training")
    decoder_layers: int = config_flags.setting(
        1, "blocks of the attention decoder; 0: no decoder, CTC alone", minimum=0
    )
    ctc_weight: float = config_flags.setting(
        0.7,
        "fraction of the CTC loss in the total, more than 0; the rest is the decoder's",
        positive=True,
        maximum=1,
        training_only=True,
    )
    label_smoothing: float = _fraction(0.1, "fraction of the decoder's target spread evenly over all tokens")

    def __post_init__(self):
        config_flags.validate(self)
        if self.encoder_units % self.attention_heads:
            raise errors.UserError(
                f"train: --encoder_units is {self.encoder_units}, expected a multiple of "
                f"--attention_heads={self.attention_heads}; change one of them."
            )
        if self.conv_kernel_size % 2 == 0:
            raise errors.UserError(
                f"train: --conv_kernel_size is {self.conv_kernel_size}, expected an odd number; "
                "an even filter has no middle."
            )


@dataclasses.dataclass(frozen=True)
class LanguageConfig:
    """Tokens to characters, one to one: hashed n-grams below a Transformer encoder."""

    language_layers: int = config_flags.setting(4, "blocks of the language model", minimum=1)
    language_units: int = config_flags.setting(256, "width of the language model; even", positive=True)
    language_inner_units: int = config_flags.setting(
        1024, "width between the two layers of the language model's feed forward", positive=True
    )
    language_heads: int = config_flags.setting(
        4, "heads of the language model's attention; divides --language_units", positive=True
    )
    # A prime number spreads the n-grams best; this one is 2^19 - 1.
    ngram_rows: int = config_flags.setting(
        524287, "rows of the table that token n-grams are hashed into; 0: no n-grams", minimum=0
    )
    ngram_units: int = config_flags.setting(64, "width of the n-gram table", positive=True)
    ngram_dropout: float = _fraction(
        0.2, "fraction of n-grams left out in training, as unseen text has others"
    )
    language_dropout: float = _fraction(0.1, "fraction of values zeroed in the language model in training")
    token_noise: float = _fraction(0.0, "fraction of tokens swapped for random ones in training")

    def __post_init__(self):
        config_flags.validate(self)
        if self.language_units % self.language_heads or self.language_units % 2:
            raise errors.UserError(
                f"train: --language_units is {self.language_units}, expected an even multiple of "
                f"--language_heads={self.language_heads}; change one of them."
            )


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Adam or momentum under a schedule with warm-up; the same for both models."""

    optimizer: str = config_flags.setting("adam", "update rule", choices=("adam", "momentum"))
    learning_rate: float = config_flags.setting(
        0.001,
        "initial learning rate, whatever the size of the batches",
        positive=True,
        former_name="base_learning_rate",
    )
    learning_rate_batch_size: float = config_flags.setting(
        0.0,
        "initial rate = learning_rate x mean utterances per step / learning_rate_batch_size; 0: not scaled",
        minimum=0,
        former_name="batch_denominator",
    )
    schedule: str = config_flags.setting(
        "step",
        "decay after warm-up; plateau: when the error rate on dev stands still",
        choices=("step", "exponential", "inverse_time", "inverse_sqrt", "plateau"),
    )
    warmup_epochs: float = config_flags.setting(
        1.0, "the rate rises linearly from zero over these epochs", minimum=0
    )
    decay_boundary_epochs: tuple[float, ...] = config_flags.setting(
        (), "schedule step: epochs at which the next decay factor begins"
    )
    decay_factors: tuple[float, ...] = config_flags.setting(
        (1.0,), "schedule step: factors of the initial rate, one more than boundaries"
    )
    decay_epochs: float = config_flags.setting(
        1.0, "schedules exponential and inverse_time: epochs per decay_rate", positive=True
    )
    decay_rate: float = config_flags.setting(
        0.9,
        "exponential: factor per decay_epochs; inverse_time: rate / (1 + decay_rate x age)",
        positive=True,
    )
    plateau_evaluations: int = config_flags.setting(
        3,
        "schedule plateau: evaluations without a new lowest error rate before the rate falls",
        positive=True,
    )
    plateau_factor: float = config_flags.setting(
        0.5, "schedule plateau: factor that the rate falls by", positive=True, maximum=0.99
    )
    momentum: float = config_flags.setting(
        0.9, "optimizer momentum: share of the last update kept", minimum=0, maximum=0.9999
    )
    # Vaswani et al. 2017, section 5.3.
    adam_beta1: float = config_flags.setting(
        0.9, "optimizer adam: decay of the first moment", minimum=0, maximum=0.9999
    )
    adam_beta2: float = config_flags.setting(
        0.98, "optimizer adam: decay of the second moment", minimum=0, maximum=0.9999
    )
    adam_epsilon: float = config_flags.setting(1e-9, "optimizer adam: added to the root", positive=True)
    clip_norm: float = config_flags.setting(
        5.0, "global norm that gradients are clipped to; 0: no clipping", minimum=0
    )
    gradient_accumulation_steps: int = config_flags.setting(
        1,
        "batches whose gradients are added up for one update; takes memory for another copy of all weights, "
        "tables included",
        positive=True,
    )

    def __post_init__(self):
        config_flags.validate(self)
        if len(self.decay_factors) != len(self.decay_boundary_epochs) + 1:
            raise errors.UserError(
                f"train: --decay_factors has {len(self.decay_factors)} values and --decay_boundary_epochs "
                f"{len(self.decay_boundary_epochs)}, expected one factor more than boundaries; "
                "give a factor for the epochs before the first boundary too."
            )
        if list(self.decay_boundary_epochs) != sorted(set(self.decay_boundary_epochs)):
            raise errors.UserError(
                f"train: --decay_boundary_epochs is {self.decay_boundary_epochs}, expected rising numbers; "
                "sort them."
            )


@dataclasses.dataclass(frozen=True)
class InputConfig:
    """How records become batches."""

    batch_frames: int = config_flags.setting(
        16000, "acoustic: frames in a batch over all replicas, padding included", positive=True
    )
    batch_tokens: int = config_flags.setting(
        4000, "language: tokens in a batch over all replicas, padding included", positive=True
    )
    num_buckets: int = config_flags.setting(
        12,
        "shapes of batches: utterances are batched with others of like length; more cost less padding",
        positive=True,
    )
    shuffle_records: int = config_flags.setting(2048, "records that the shuffle chooses from", positive=True)
    spec_augment: bool = config_flags.setting(True, "mask time and frequency stripes in acoustic training")
    # Two masks of each kind as in Park et al. 2019 (LD), narrower because the corpora are small.
    time_masks: int = config_flags.setting(2, "spec_augment: time masks per utterance", minimum=0)
    time_mask_frames: int = config_flags.setting(
        40, "spec_augment: a time mask has at most so many frames", minimum=0
    )
    time_mask_share: float = config_flags.setting(
        0.2,
        "spec_augment: all time masks together hide at most this share of an utterance",
        minimum=0,
        maximum=1,
    )
    frequency_masks: int = config_flags.setting(2, "spec_augment: frequency masks per utterance", minimum=0)
    frequency_mask_bins: int = config_flags.setting(
        15, "spec_augment: a frequency mask has at most so many bins", minimum=0
    )

    def __post_init__(self):
        config_flags.validate(self)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The loop: how long, how often, on what."""

    model: str = config_flags.setting("acoustic", "which model to train", choices=("acoustic", "language"))
    train_steps: Optional[int] = config_flags.setting(
        None,
        "stop after so many updates of the weights (not with --train_epochs)",
        positive=True,
        alternative="train_epochs",
    )
    train_epochs: Optional[float] = config_flags.setting(
        None,
        f"stop after so many epochs; {DEFAULT_EPOCHS} if neither this nor --train_steps is given",
        positive=True,
        alternative="train_steps",
    )
    save_checkpoints_steps: int = config_flags.setting(
        500, "checkpoint, and evaluation on the dev split, every so many steps", positive=True
    )
    keep_checkpoint_max: int = config_flags.setting(5, "checkpoints kept", positive=True)
    eval_throttle_seconds: int = config_flags.setting(
        30,
        "least time between two evaluations; without effect where early stopping or the plateau count them",
        minimum=0,
    )
    save_summary_steps: int = config_flags.setting(
        50, "TensorBoard points every so many steps", positive=True
    )
    progress_seconds: float = config_flags.setting(
        10.0, "a progress line every so many seconds", positive=True
    )
    seed: int = config_flags.setting(  # an epoch's is seed + epoch, in int64
        1, "seed of weights, order and dropout", minimum=-(10**18), maximum=10**18
    )
    warm_start_from: Optional[str] = config_flags.setting(
        None, "model directory, checkpoint or Keras .h5 file whose weights a new model starts with"
    )
    warm_start_tokens: Optional[str] = config_flags.setting(
        None, "with --warm_start_from=FILE.h5: its tokens, one a line, the blank left out"
    )
    precision: str = config_flags.setting(
        "float32",
        "float16 (experimental, not run on a GPU yet): mixed precision with loss scaling, for GPUs with "
        "tensor cores; bfloat16: for CPUs with avx512_bf16 or amx_bf16, where long utterances take three "
        "quarters of the time (measured)",
        choices=("float32", "float16", "bfloat16"),
    )
    num_local_workers: int = config_flags.setting(
        1,
        "worker processes on this machine and an evaluator, all started again when one dies",
        positive=True,
    )
    num_cpu_replicas: int = config_flags.setting(
        1, "replicas on the CPU under MirroredStrategy (to test what several GPUs do)", positive=True
    )
    xla: bool = config_flags.setting(
        False, "compile with XLA, for GPU; on a CPU a step takes three times as long (measured)"
    )

    def __post_init__(self):
        config_flags.validate(self)
        if self.train_steps is not None and self.train_epochs is not None:
            raise errors.UserError(
                f"train: --train_steps={self.train_steps} and --train_epochs={self.train_epochs:g} "
                "are both given, expected one of them; leave the other out."
            )


SECTIONS = {
    "acoustic": AcousticConfig,
    "language": LanguageConfig,
    "optimizer": OptimizerConfig,
    "input": InputConfig,
    "train": TrainConfig,
    "stopping": loop_config.StoppingConfig,
    "watch": loop_config.WatchConfig,
    "display": loop_config.DisplayConfig,
}
