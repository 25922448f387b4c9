"""What tests of alarms share: a training of 10,000 steps with a warm-up of 100, and readings of it."""

from __future__ import annotations

from estimator_asr.monitoring import readings

CONTEXT = readings.Context(
    train_command="python -m estimator_asr.train --model=acoustic --data_dir=DATA,MORE --model_dir=AM",
    model_dir="AM",
    data_dir="DATA,MORE",
    error_rate="token-error-rate",
    warmup_steps=100,
    max_steps=10000,
    base_rate=0.0015,
    peak_rate=0.001,
    constant_loss_steps=500,
)


def repeat(figures, *, count=5, last_step=6000, between=50, loss=1.0, label_form="", error_rate=0.9):
    """Readings that are all alike; their losses differ a little."""
    figures = {"token-error-rate": error_rate, "learning-rate": 0.001, **figures}
    rows = []
    for i in range(count):
        losses = tuple(loss * (1 + 0.001 * ((7 * i + j) % 13)) for j in range(between))
        rows.append(readings.Reading(last_step - between * (count - 1 - i), figures, losses, label_form))
    return rows
