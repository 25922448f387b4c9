"""Pretrained weights: warm start from another model directory, a checkpoint or a Keras .h5 file."""
