"""Monitors training: progress, TensorBoard, prediction samples, data wait, watchdog."""
