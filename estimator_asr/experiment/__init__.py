"""What describes a model on disk, and the one door to tf.estimator.

config and training_config define every setting once; experiment and model_directory write and read
config.json, and decoding_files the settings of decoding beside it. task_spec says what a model reads and
writes, checkpoints finds its weights. Everything else reaches TensorFlow's Estimator through estimator_api.
"""
