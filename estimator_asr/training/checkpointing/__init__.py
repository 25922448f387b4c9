"""Checkpoints of a training: recovery, the best ones, and the log of their evaluations."""
