"""Imports tf.estimator, also under TensorFlow releases that no longer contain it."""
