"""Training and evaluation of both models with TensorFlow's Estimator.

plan computes the number of steps from the settings, loop trains, model_fn builds the graph of a step,
evaluation evaluates checkpoints on dev, and stopping, step_time and directory_lock guard the run. optimizer/
updates the weights, distributed/ handles replicas and workers, and checkpointing/ keeps the best checkpoints
and recovers from damaged checkpoints.
"""
