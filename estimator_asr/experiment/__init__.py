"""Settings and files that describe a model, and the only access to tf.estimator.

config and training_config define every setting once; train_command groups the flags for train --help.
experiment and model_directory write and read config.json; decoding_files writes and reads decoding.json.
task_spec describes what a model reads and outputs, and checkpoints finds a model's weights. All other modules
use TensorFlow's Estimator through estimator_api.
"""
