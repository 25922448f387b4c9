"""What is kept of a training: checkpoints, exports, evaluations, and when they say to stop."""
