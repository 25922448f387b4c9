"""Checkpoints: saving, selecting the best, recovery, warm start, and the log of evaluations."""
