"""Learning-rate schedules, gradient accumulation, clipping, loss scaling and the update of the weights."""
