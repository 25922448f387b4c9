"""What tells a training that looks broken, and the trial that learns a few batches by heart."""
