"""Facts about a training run of 10,000 steps with 100 warm-up steps, and observed steps, to test alarms."""

from estimator_asr.monitoring import observations

TRAINING = observations.TrainingFacts(
    command="python -m estimator_asr.train --model=acoustic --data_dir=DATA,MORE --model_dir=AM",
    model_dir="AM",
    data_dir="DATA,MORE",
    error_rate="token-error-rate",
    warmup_steps=100,
    max_steps=10000,
    base_rate=0.0015,
    peak_rate=0.001,
    constant_loss_steps=500,
)


def repeat(metrics, *, count=5, last_step=6000, between=50, loss=1.0, error_rate=0.9):
    """Returns `count` observed steps with equal metrics and slightly different losses."""
    metrics = {"token-error-rate": error_rate, "learning-rate": 0.001, **metrics}
    rows = []
    for i in range(count):
        losses = tuple(loss * (1 + 0.001 * ((7 * i + j) % 13)) for j in range(between))
        rows.append(observations.ObservedStep(last_step - between * (count - 1 - i), metrics, losses))
    return rows
