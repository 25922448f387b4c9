"""Diagnostics: finds out why training went wrong.

observers builds the hooks for the training loop. nan_recorder saves each step with a NaN or Inf (nan_files),
and nan_search finds the cause. label_checks checks the labels in records, memory_probe tries the largest
batches, overfit tests whether a model can memorise a few batches, and doctor/ checks the machine, the data
and the model. trial runs training steps without Estimator for overfit and doctor/.
"""
