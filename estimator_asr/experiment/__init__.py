"""Experiments: all settings, config.json, the model directory, and task specs."""
