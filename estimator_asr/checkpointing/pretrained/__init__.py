"""Weights of another model to start training from."""
