"""Diagnostics: explains training that went wrong.

observers builds the hooks for the training loop. nan_recorder saves steps with a NaN (nan_files), in which
nan_search finds the cause; label_checks checks the labels in records, memory_probe tries the largest batches,
overfit memorises a few batches with trial, and doctor/ runs checks without training.
"""
