"""Explains a training that went wrong.

observers is the list of hooks for the loop. nan_recorder keeps a batch with a NaN (nan_files), which
nan_search replays; label_checks reads the records, trial and memory_probe measure the largest batch,
overfit memorises one batch, and doctor/ runs all checks without training.
"""
