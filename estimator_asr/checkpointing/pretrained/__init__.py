"""Pretrained weights: warm start from another model directory, a checkpoint, or Whisper."""
