"""Settings and files that describe a model, and the only access to tf.estimator.

config and training_config define every setting once, and train_flags says how train --help lists them.
experiment and model_directory write and read config.json; decoding_files does so for the decoding settings.
task_spec says what a model reads and outputs, and checkpoints finds its weights. All other modules use
TensorFlow's Estimator through estimator_api.
"""
