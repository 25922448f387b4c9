"""Training and evaluation of both models with TensorFlow's Estimator.

plan turns the settings into a number of steps, loop trains, model_fn builds the graph of a step, evaluation
scores dev, and stopping, step_time and directory_lock guard the run. optimizer/ updates the weights,
distributed/ handles replicas and workers, and checkpointing/ keeps the best checkpoints and replaces damaged
ones.
"""
