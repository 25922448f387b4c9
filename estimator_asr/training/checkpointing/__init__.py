"""Training checkpoints: recovery, the best checkpoints, and the log of evaluations."""
