"""The Estimator loop around both models."""
