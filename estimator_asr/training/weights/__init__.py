"""Weights of another model to start with."""
