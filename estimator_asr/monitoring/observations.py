"""Observations for the watchdog: metrics from recent training steps and from evaluations on dev."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.monitoring import advice

# Even with the demo's easy speech, a model must see 2,800 utterances before it outputs any tokens. After
# several epochs on the same utterances, it learns nothing more that helps with other utterances.
_FEW_UTTERANCES, _USEFUL_EPOCHS = 5000, 10
# Means cover this many observed steps; a noisy metric must be beyond its limit in each of them for an alarm.
IN_A_ROW = 5


class TrainingFacts(NamedTuple):
    """Facts about a training run that alarms use or show."""

    command: str  # command line that started the training
    model_dir: str
    data_dir: str  # comma-separated data directories
    error_rate: str  # TensorBoard tag of the decoded error rate
    warmup_steps: int  # number of steps in which the learning rate rises
    max_steps: int  # total number of steps
    base_rate: float  # --learning_rate
    peak_rate: float  # learning rate at the end of the warm-up
    constant_loss_steps: int  # minimum of span; also scales settled_step and late_step
    steps_per_epoch: float = 1.0
    num_utterances: int = _FEW_UTTERANCES  # number of utterances in the train split
    hours: float = 0.0  # hours of audio in the train split; 0 for text

    @property
    def span(self) -> int:
        """Number of steps within which the loss must fall; larger for long runs, whose loss falls slowly."""
        return max(self.constant_loss_steps, self.max_steps // 20)

    @property
    def settled_step(self) -> int:
        """The step by which healthy training has left the all-blank plateau, where hypotheses are empty."""
        return self.warmup_steps + min(4 * self.constant_loss_steps, self.max_steps // 3)

    @property
    def late_step(self) -> int:
        """The step by which hypotheses in healthy training are about as long as the references."""
        return self.warmup_steps + min(10 * self.constant_loss_steps, self.max_steps // 2)

    def commands(self) -> dict[str, str]:
        """Returns the commands that alarms suggest, keyed by their names in the sentences."""
        slower, sibling = f"{self.base_rate / 3:.2g}", self.model_dir.rstrip("/")
        data, where = {"data_dir": self.data_dir}, {"model_dir": self.model_dir, "data_dir": self.data_dir}
        new_models = {
            "slower": [f"--model_dir={sibling}-rate{slower}", f"--learning_rate={slower}"],
            "more_ctc": [f"--model_dir={sibling}-ctc0.9", "--ctc_weight=0.9"],
        }
        return {
            "doctor": advice.command("estimator_asr.doctor", **data, model_dir=self.model_dir),
            "verify": advice.command("tfrecord_builder.verify", **data),
            "show": advice.command("tfrecord_builder.show", data_dir=self.data_dir.split(",")[0]),
            "evaluate": advice.command(
                "estimator_asr.evaluate", **where, split="dev", output_dir=f"{sibling}-report"
            ),
            "overfit": f"{self.command} --overfit_batches=1",
            "histograms": f"{self.command} --histogram_steps={self.constant_loss_steps}",
            **{name: f"{self.command} {shlex.join(flags)}" for name, flags in new_models.items()},
        }


class ObservedStep(NamedTuple):
    """A training step whose metrics were observed."""

    number: int
    metrics: Mapping[str, float]  # metrics keyed by TensorBoard tag
    losses: tuple = ()  # per-label losses of the steps since the last observation, including this step


class DevEvaluation(NamedTuple):
    """Metrics of an evaluation on dev, and mean metrics of the training steps observed just before it."""

    step: int
    train: Mapping[str, float]
    dev: Mapping[str, float]


class Observations(NamedTuple):
    """The observations that alarms check, newest last."""

    training: TrainingFacts
    steps: Sequence[ObservedStep] = ()
    evaluations: Sequence[DevEvaluation] = ()

    @property
    def little(self) -> str:
        """Clause of an alarm, saying that the model has seen too little data; "" if it has seen enough."""
        size, hours = self.training.num_utterances, self.training.hours
        last_step = max(observed[0] for observed in (*self.steps, *self.evaluations))
        epochs = last_step / self.training.steps_per_epoch
        how = "longer or on more data" if epochs < _USEFUL_EPOCHS else "on more data"
        seen = f"{epochs:.1f} epochs of {size:,} utterances" + (f", {hours:.2f} hours" if hours else "")
        cause = f"the model has seen too little data ({seen}), so train {how} first; otherwise "
        return cause if size * min(epochs, _USEFUL_EPOCHS) < _FEW_UTTERANCES else ""

    def newest(self, tag: str, default: float) -> float:
        return self.steps[-1].metrics.get(tag, default)

    def last(self, tag: str, count: int, after: int = -1) -> list[float]:
        """Returns a metric's last `count` observed values after step `after`; [] if there are fewer."""
        late = [step.metrics for step in self.steps if step.number > after][-count:]
        values = [metrics[tag] for metrics in late if tag in metrics]
        return values if len(values) == count else []

    def means(self) -> dict[str, float]:
        return mean_metrics([step.metrics for step in self.steps])


def mean_metrics(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns each metric's mean over the last IN_A_ROW observations, unless one of them lacks the metric."""
    last = metrics[-IN_A_ROW:]
    tags = set.intersection(*map(set, last)) if last else ()
    return {tag: sum(values[tag] for values in last) / len(last) for tag in tags}


def window_means(steps: Sequence[ObservedStep], num_losses: int) -> list[tuple[int, float]]:
    """Returns the (last step, mean loss) pair of each window of steps; one window ends at each step.

    Each window is the shortest with at least num_losses losses; a step with fewer losses so far has none.
    """
    counts = np.cumsum([0, *(len(step.losses) for step in steps)])
    sums = np.cumsum([0.0, *(sum(step.losses) for step in steps)])
    begins = np.searchsorted(counts, counts - num_losses, side="right") - 1  # starts of the shortest windows
    means = (sums - sums[begins]) / np.maximum(counts - counts[begins], 1)
    return [
        (step.number, float(mean)) for step, begin, mean in zip(steps, begins[1:], means[1:]) if begin >= 0
    ]
