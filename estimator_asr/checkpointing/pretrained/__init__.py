"""Pretrained weights: warm start from another model directory, a checkpoint, or a published encoder."""
