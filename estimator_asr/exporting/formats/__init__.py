"""Exports in formats other than SavedModel, for machines without TensorFlow."""
