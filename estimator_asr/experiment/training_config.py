"""Settings for a training run: optimizer, length, stopping, checks, and TensorBoard displays."""

from __future__ import annotations

import dataclasses
from typing import Optional

from estimator_asr.experiment import task_spec
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags

setting, constant = config_flags.setting, config_flags.constant
DEFAULT_EPOCHS = 30


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(config_flags.Checked):
    """Settings for the optimizer (Adam or momentum) and the learning rate schedule."""

    optimizer: str = setting("adam", "update rule", choices=("adam", "momentum"))
    learning_rate: float = setting(0.001, "initial learning rate", positive=True)
    # Initial rate = learning_rate x mean utterances per step / learning_rate_batch_size; 0 disables scaling.
    learning_rate_batch_size: float = constant(0.0, "set --learning_rate to the rate for your batch size")
    schedule: str = setting(
        "step",
        "learning rate decay after warm-up; plateau halves the rate after three evaluations without a lower "
        "error rate on dev",
        choices=("step", "exponential", "inverse_time", "inverse_sqrt", "plateau"),
    )
    warmup_epochs: float = setting(
        1.0, "number of epochs during which the rate rises linearly from zero", minimum=0
    )
    decay_boundary_epochs: tuple[float, ...] = setting(
        (), "for the step schedule: epochs at which the next decay factor takes effect"
    )
    decay_factors: tuple[float, ...] = setting(
        (1.0,), "for the step schedule: factors for the initial rate, one more factor than boundary epochs"
    )
    decay_epochs: float = constant(1.0, "use --decay_rate, which applies once per epoch")
    decay_rate: float = setting(
        0.9,
        "for the exponential schedule: factor per epoch; for inverse_time: the rate is divided by 1 + "
        "decay_rate x epochs",
        positive=True,
    )
    plateau_evaluations: int = constant(3)  # evaluations without a lower error rate before the rate decays
    plateau_factor: float = constant(0.5)  # factor by which the plateau schedule multiplies the rate
    momentum: float = constant(0.9)  # decay of the accumulated gradient
    adam_beta1: float = constant(0.9)  # Adam's values are from Vaswani et al. 2017, section 5.3
    adam_beta2: float = constant(0.98)
    adam_epsilon: float = constant(1e-9)
    pretrained_rate: float = setting(
        0.1,
        "for --trainable_blocks: ratio of the last block's learning rate to --learning_rate",
        positive=True,
    )
    pretrained_rate_decay: float = constant(0.7)  # ratio of a block's learning rate to that of the next block
    clip_norm: float = setting(
        5.0, "global norm to which gradients are clipped; 0 disables clipping", minimum=0
    )
    gradient_accumulation_steps: int = setting(
        1,
        "number of batches whose gradients are summed for one update; values above 1 need memory for another "
        "copy of all weights, including embedding tables",
        positive=True,
    )

    def __post_init__(self):
        super().__post_init__()
        if len(self.decay_factors) != len(self.decay_boundary_epochs) + 1:
            raise errors.UserError(
                f"train: --decay_factors has {len(self.decay_factors)} values and --decay_boundary_epochs "
                f"has {len(self.decay_boundary_epochs)}; there must be one more factor than boundaries, "
                "because the first factor applies before the first boundary."
            )
        if list(self.decay_boundary_epochs) != sorted(set(self.decay_boundary_epochs)):
            boundaries = ",".join(map("{:g}".format, self.decay_boundary_epochs))
            raise errors.UserError(
                f"train: --decay_boundary_epochs={boundaries} must be increasing; sort the values."
            )


@dataclasses.dataclass(frozen=True)
class TrainConfig(config_flags.Checked):
    """Settings for the training loop: length, intervals, warm start and devices."""

    REMOVED = {
        "gpu_memory_growth": "set the environment variable TF_FORCE_GPU_ALLOW_GROWTH=true instead",
        "max_first_step_minutes": "use --max_step_minutes; the first step may take three times as long",
    }

    model: str = setting("acoustic", "which model to train", choices=tuple(task_spec.SPECS))
    train_steps: Optional[int] = setting(
        None, "stop after this many updates of the weights", positive=True, alternative="train_epochs"
    )
    train_epochs: Optional[float] = setting(
        None,
        f"stop after this many epochs; {DEFAULT_EPOCHS} if neither this flag nor --train_steps is set",
        positive=True,
        alternative="train_steps",
    )
    save_checkpoints_steps: int = setting(
        500, "steps between checkpoints; each checkpoint is evaluated on the dev split", positive=True
    )
    keep_checkpoint_max: int = constant(
        5, "the five latest checkpoints are kept; for more of the best ones, use --keep_best_checkpoints"
    )
    # Minimum time between evaluations; ignored with early stopping or the plateau schedule.
    eval_throttle_seconds: int = constant(30, "use --save_checkpoints_steps to evaluate less often")
    save_summary_steps: int = setting(50, "steps between points in TensorBoard's plots", positive=True)
    progress_seconds: float = constant(10.0)  # seconds between progress lines
    max_step_minutes: float = setting(
        10.0,
        "maximum duration of a step in minutes, after which training exits with code 75; the first step, "
        "which compiles, may take three times as long",
        positive=True,
    )
    seed: int = setting(  # each epoch's seed is seed + epoch, which must fit into an int64
        1, "random seed of weights, data order, masks and dropout", minimum=-(10**18), maximum=10**18
    )
    warm_start_from: Optional[str] = setting(
        None,
        "initial weights of a new model: a model directory, a checkpoint in one, or a pretrained encoder",
        checkpoints=True,
    )
    precision: str = setting(
        "float32",
        "float16 (experimental): mixed precision with loss scaling, for GPUs with tensor cores; bfloat16: "
        "for GPUs with compute capability 8.0 or higher, and for CPUs with avx512_bf16 or amx_bf16, on which "
        "long utterances take 75 % of the time that float32 needs (measured)",
        choices=("float32", "float16", "bfloat16"),
    )
    num_cpu_replicas: int = setting(1, "number of CPU replicas (to test multi-GPU training)", positive=True)
    xla: bool = setting(
        False, "compile with XLA; only for GPUs, because steps on a CPU take three times as long"
    )

    def __post_init__(self):
        super().__post_init__()
        if self.train_steps is not None and self.train_epochs is not None:
            raise errors.UserError(
                f"train: --train_steps={self.train_steps} and --train_epochs={self.train_epochs:g} "
                "are both set; leave one of them out."
            )


@dataclasses.dataclass(frozen=True)
class StoppingConfig(config_flags.Checked):
    """Settings for keeping the best checkpoints and for early stopping."""

    keep_best_checkpoints: int = setting(
        5, "number of checkpoints with the lowest error rates on dev to keep in MODEL_DIR/best", minimum=1
    )
    early_stopping_evaluations: int = setting(
        0,
        "stop after this many evaluations without a new lowest error rate on dev; 0 disables early stopping",
        minimum=0,
    )


@dataclasses.dataclass(frozen=True)
class WatchConfig(config_flags.Checked):
    """Settings for checks on the data, the model and its training."""

    watchdog: bool = setting(
        True, "watch losses, hypotheses and gradients; alarms name the likely cause and the next command"
    )
    # An alarm is raised if the loss is constant for this many steps or 5 % of all steps, whichever is more.
    constant_loss_steps: int = constant(500)
    skip_bad_batches: int = setting(
        0, "maximum number of steps with NaN or Inf to skip; one more such step ends training", minimum=0
    )
    overfit_batches: int = setting(
        0,
        "test whether the model can memorise this many batches, then exit; a model that cannot is broken; 0 "
        "disables this test",
        minimum=0,
    )
    try_worst_batch: bool = setting(True, "before the first step, try the batch that needs the most memory")


@dataclasses.dataclass(frozen=True)
class DisplayConfig(config_flags.Checked):
    """Settings for TensorBoard displays other than scalars."""

    show_utterances: int = setting(
        4, "number of dev utterances that TensorBoard shows with spectrogram, alignment and audio", minimum=0
    )
    histogram_steps: int = setting(
        0, "steps between TensorBoard's histograms of weights and gradients; 0 disables histograms", minimum=0
    )
    profile_steps: tuple[int, ...] = setting(
        (), "first and last step that TensorBoard's profiler records; by default, it records none", minimum=0
    )

    def __post_init__(self):
        super().__post_init__()
        steps = self.profile_steps
        if steps and (len(steps) != 2 or steps[0] > steps[1]):
            raise errors.UserError(
                f"train: --profile_steps is {','.join(map(str, steps))}, expected the first and the last "
                "step to record; pass two numbers, as in --profile_steps=100,110."
            )
