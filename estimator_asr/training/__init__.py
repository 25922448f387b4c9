"""Training and evaluation of both models with TensorFlow's Estimator."""
