"""Checkpoints: saving, choosing, averaging, warm start, and the log of evaluations."""
