"""Observations of a training for the watchdog: metrics of recent steps and of evaluations on dev."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr.monitoring import advice

# The demo's model, whose speech is easy, reads 2,800 utterances before it writes any token. After some epochs
# the same utterances teach a model nothing more about other ones.
_FEW_UTTERANCES, _USEFUL_EPOCHS = 5000, 10
# Means are taken over this many observed steps, and noisy metrics must agree in all of them.
IN_A_ROW = 5


class TrainingFacts(NamedTuple):
    """Facts of a training that alarms depend on or show."""

    command: str  # command line of the training
    model_dir: str
    data_dir: str  # comma separated
    error_rate: str  # tag of the decoded error rate
    warmup_steps: int  # steps while the learning rate rises
    max_steps: int  # total number of steps
    base_rate: float  # --learning_rate
    peak_rate: float  # learning rate at the end of the warm-up
    constant_loss_steps: int  # --constant_loss_steps, the patience
    steps_per_epoch: float = 1.0
    num_utterances: int = _FEW_UTTERANCES  # the train split has so many
    hours: float = 0.0  # duration of the train split; 0 for text

    @property
    def span(self) -> int:
        """Steps over which a loss has to fall: in a long training it falls more slowly."""
        return max(self.constant_loss_steps, self.max_steps // 20)

    @property
    def settled_step(self) -> int:
        """From here on hypotheses are not empty: healthy trainings have left the all-blank plateau."""
        return self.warmup_steps + min(4 * self.constant_loss_steps, self.max_steps // 3)

    @property
    def late_step(self) -> int:
        """From here on hypotheses are about as long as the references."""
        return self.warmup_steps + min(10 * self.constant_loss_steps, self.max_steps // 2)

    def commands(self) -> dict[str, str]:
        """Returns the commands that alarms advise, by name."""
        slower, sibling = f"{self.base_rate / 3:.2g}", self.model_dir.rstrip("/")
        where = (f"--model_dir={self.model_dir}", f"--data_dir={self.data_dir}", "--split=dev")
        new_models = {
            "slower": [f"--model_dir={sibling}-rate{slower}", f"--learning_rate={slower}"],
            "more_ctc": [f"--model_dir={sibling}-ctc0.9", "--ctc_weight=0.9"],
        }
        return {
            "doctor": advice.doctor(self.data_dir, self.model_dir),
            "verify": advice.verify(self.data_dir),
            "evaluate": advice.command("estimator_asr.evaluate", *where, f"--output_dir={sibling}-report"),
            "overfit": f"{self.command} --overfit_batches=1",
            "histograms": f"{self.command} --histogram_steps={self.constant_loss_steps}",
            **{name: f"{self.command} {shlex.join(flags)}" for name, flags in new_models.items()},
        }


class Step(NamedTuple):
    """An observed training step."""

    number: int
    metrics: Mapping[str, float]  # by TensorBoard tag
    losses: tuple = ()  # loss per label of this step and of those since the previous observation


class DevEvaluation(NamedTuple):
    """Metrics on dev, and the means of the training steps observed before."""

    step: int
    train: Mapping[str, float]
    dev: Mapping[str, float]


class Observations(NamedTuple):
    """Input of the alarms; the newest observation comes last."""

    training: TrainingFacts
    steps: Sequence[Step] = ()
    evaluations: Sequence[DevEvaluation] = ()

    @property
    def little(self) -> str:
        """The cause that the model has seen too little; "" if it has seen enough."""
        size, hours = self.training.num_utterances, self.training.hours
        epochs = max(each[0] for each in (*self.steps, *self.evaluations)) / self.training.steps_per_epoch
        how = "longer or on more data" if epochs < _USEFUL_EPOCHS else "on more data"
        seen = f"{epochs:.1f} epochs of {size:,} utterances" + (f", {hours:.2f} hours" if hours else "")
        cause = f"the model has seen too little ({seen}): train {how} first; otherwise "
        return cause if size * min(epochs, _USEFUL_EPOCHS) < _FEW_UTTERANCES else ""

    def newest(self, tag: str, default: float) -> float:
        return self.steps[-1].metrics.get(tag, default)

    def last(self, tag: str, count: int, after: int = -1) -> list[float]:
        """Returns a metric in the last `count` observations after a step; [] if fewer have it."""
        late = [step.metrics for step in self.steps if step.number > after][-count:]
        values = [metrics[tag] for metrics in late if tag in metrics]
        return values if len(values) == count else []

    def means(self) -> dict[str, float]:
        return mean_metrics([step.metrics for step in self.steps])


def mean_metrics(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean over the last IN_A_ROW of each metric that all of them have."""
    last = metrics[-IN_A_ROW:]
    tags = set.intersection(*map(set, last)) if last else ()
    return {tag: sum(each[tag] for each in last) / len(last) for tag in tags}


def window_means(steps: Sequence[Step], num_losses: int) -> list[tuple[int, float]]:
    """Returns last step and mean loss of each shortest window of at least num_losses losses."""
    counts = np.cumsum([0, *(len(step.losses) for step in steps)])
    sums = np.cumsum([0.0, *(sum(step.losses) for step in steps)])
    begins = np.searchsorted(counts, counts - num_losses, side="right") - 1  # the last that is early enough
    means = (sums - sums[begins]) / np.maximum(counts - counts[begins], 1)
    return [
        (step.number, float(mean)) for step, begin, mean in zip(steps, begins[1:], means[1:]) if begin >= 0
    ]
