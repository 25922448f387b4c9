"""Settings of a training run: length, stopping, checks, and what TensorBoard shows."""

from __future__ import annotations

import dataclasses
from typing import Optional

from estimator_asr.experiment import task_spec
from tfrecord_builder import errors
from tfrecord_builder.settings import config_flags

DEFAULT_EPOCHS = 30


@dataclasses.dataclass(frozen=True)
class TrainConfig(config_flags.Checked):
    """The loop: length, intervals, warm start, devices."""

    model: str = config_flags.setting("acoustic", "which model to train", choices=tuple(task_spec.SPECS))
    train_steps: Optional[int] = config_flags.setting(
        None, "stop after this many updates of the weights", positive=True, alternative="train_epochs"
    )
    train_epochs: Optional[float] = config_flags.setting(
        None,
        f"stop after this many epochs; {DEFAULT_EPOCHS} without this and --train_steps",
        positive=True,
        alternative="train_steps",
    )
    save_checkpoints_steps: int = config_flags.setting(
        500, "steps between checkpoints; each is evaluated on the dev split", positive=True
    )
    keep_checkpoint_max: int = config_flags.setting(5, "latest checkpoints to keep", positive=True)
    eval_throttle_seconds: int = config_flags.setting(
        30, "minimum time between evaluations; ignored by early stopping and schedule plateau", minimum=0
    )
    save_summary_steps: int = config_flags.setting(50, "steps between TensorBoard points", positive=True)
    progress_seconds: float = config_flags.setting(10.0, "seconds between progress lines", positive=True)
    max_first_step_minutes: float = config_flags.setting(
        30.0, "end the program, with exit code 75, if the first step takes longer", positive=True
    )
    max_step_minutes: float = config_flags.setting(10.0, "the same for each later step", positive=True)
    seed: int = config_flags.setting(  # seed + epoch is the seed of an epoch, an int64
        1, "random seed of weights, order, masks and dropout", minimum=-(10**18), maximum=10**18
    )
    warm_start_from: Optional[str] = config_flags.setting(
        None,
        "model directory or checkpoint in it, or Whisper model, with the initial weights of a new model",
        local=True,
    )
    precision: str = config_flags.setting(
        "float32",
        "float16 (experimental, not run on a GPU yet): mixed precision with loss scaling, for GPUs with "
        "tensor cores; bfloat16: for GPUs from compute capability 8.0 on (not run on one yet), and for CPUs "
        "with avx512_bf16 or amx_bf16, where long utterances take 75 % of the time (measured)",
        choices=("float32", "float16", "bfloat16"),
    )
    num_cpu_replicas: int = config_flags.setting(
        1, "CPU replicas under MirroredStrategy (to test multi-GPU training)", positive=True
    )
    gpu_memory_growth: bool = config_flags.setting(
        False, "take GPU memory when it is needed instead of all at the start, to share a GPU"
    )
    xla: bool = config_flags.setting(
        False, "compile with XLA, for GPUs; on a CPU a step takes three times as long (measured)"
    )

    def __post_init__(self):
        super().__post_init__()
        if self.train_steps is not None and self.train_epochs is not None:
            raise errors.UserError(
                f"train: --train_steps={self.train_steps} and --train_epochs={self.train_epochs:g} "
                "are both given, expected one of them; leave the other out."
            )


@dataclasses.dataclass(frozen=True)
class StoppingConfig(config_flags.Checked):
    """Best checkpoints and early stopping."""

    keep_best_checkpoints: int = config_flags.setting(
        5, "checkpoints with the lowest error rate on dev to keep in MODEL_DIR/best", minimum=1
    )
    early_stopping_evaluations: int = config_flags.setting(
        0, "stop after this many evaluations without a new lowest error rate on dev; 0: never", minimum=0
    )


@dataclasses.dataclass(frozen=True)
class WatchConfig(config_flags.Checked):
    """Checks of data, model and training."""

    watchdog: bool = config_flags.setting(
        True, "watch losses, hypotheses and gradients; alarms name the likely cause and the next command"
    )
    constant_loss_steps: int = config_flags.setting(
        500, "watchdog: alarm if the loss stays constant for this many steps and 5 % of all", positive=True
    )
    skip_bad_batches: int = config_flags.setting(
        0, "maximum number of steps with NaN or Inf to skip; one more ends training", minimum=0
    )
    overfit_batches: int = config_flags.setting(
        0, "memorise this many batches and exit: a model that cannot is broken; 0: off", minimum=0
    )
    try_worst_batch: bool = config_flags.setting(
        True, "before the first step, try the batch that needs the most memory"
    )


@dataclasses.dataclass(frozen=True)
class DisplayConfig(config_flags.Checked):
    """TensorBoard beyond scalars."""

    show_utterances: int = config_flags.setting(
        4, "TensorBoard: dev utterances to show with spectrogram, alignment and audio; 0: none", minimum=0
    )
    histogram_steps: int = config_flags.setting(
        0, "TensorBoard: steps between histograms of weights and gradients; 0: none", minimum=0
    )
    profile_steps: tuple[int, ...] = config_flags.setting(
        (), "first and last step that TensorBoard's profiler records; empty: none", minimum=0
    )

    def __post_init__(self):
        super().__post_init__()
        steps = self.profile_steps
        if steps and (len(steps) != 2 or steps[0] > steps[1]):
            raise errors.UserError(
                f"train: --profile_steps is {','.join(map(str, steps))}, expected the first and the last "
                "step to record; give two numbers, as in --profile_steps=100,110."
            )
