"""Learning-rate schedules, gradient accumulation, gradient clipping, loss scaling and weight updates."""
