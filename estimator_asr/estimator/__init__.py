"""The one door to tf.estimator."""
