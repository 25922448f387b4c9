"""Settings of the loop around the models: when it stops, what it watches, what it shows."""

from __future__ import annotations

import dataclasses

from tfrecord_builder import config_flags, errors


@dataclasses.dataclass(frozen=True)
class StoppingConfig:
    """Which checkpoints are worth keeping, and when more training is not worth it."""

    keep_best_checkpoints: int = config_flags.setting(
        5, "checkpoints with the lowest error rate on dev that are kept in MODEL_DIR/best", minimum=1
    )
    early_stopping_evaluations: int = config_flags.setting(
        0, "stop after so many evaluations without a new lowest error rate on dev; 0: never", minimum=0
    )

    def __post_init__(self):
        config_flags.validate(self)


@dataclasses.dataclass(frozen=True)
class WatchConfig:
    """What is done so that nobody loses a night."""

    watchdog: bool = config_flags.setting(
        True,
        "look at losses, hypotheses, gradients and labels while training, and say in one sentence what is "
        "likely wrong and which command to run next",
    )
    constant_loss_steps: int = config_flags.setting(
        500,
        "watchdog: a loss that has not fallen for so many steps, and a twentieth of the training, is an "
        "alarm",
        positive=True,
    )
    skip_bad_batches: int = config_flags.setting(
        0,
        "batches whose loss or gradient is no number that may be left out; one more ends training",
        minimum=0,
    )
    overfit_batches: int = config_flags.setting(
        0,
        "learn the first so many batches by heart and end: a model that cannot is broken; 0: off",
        minimum=0,
    )
    dump_batches: int = config_flags.setting(
        0, "write the first so many batches as the model gets them to MODEL_DIR/batches; 0: none", minimum=0
    )
    try_worst_batch: bool = config_flags.setting(
        True, "before the first step, try the batch that needs most memory"
    )

    def __post_init__(self):
        config_flags.validate(self)


@dataclasses.dataclass(frozen=True)
class DisplayConfig:
    """What TensorBoard shows beyond scalars."""

    show_utterances: int = config_flags.setting(
        4,
        "TensorBoard: utterances of dev whose spectrogram, alignment, text and audio are shown; 0: none",
        minimum=0,
    )
    histogram_steps: int = config_flags.setting(
        0, "TensorBoard: histograms of weights and gradients every so many steps; 0: none", minimum=0
    )
    profile_steps: tuple[int, ...] = config_flags.setting(
        (), "first and last step that TensorBoard's profiler records; empty: none", minimum=0
    )

    def __post_init__(self):
        config_flags.validate(self)
        steps = self.profile_steps
        if steps and (len(steps) != 2 or steps[0] > steps[1]):
            raise errors.UserError(
                f"train: --profile_steps is {','.join(map(str, steps))}, expected the first and the last "
                "step to record; give two numbers, as in --profile_steps=100,110."
            )
