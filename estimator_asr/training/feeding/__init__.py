"""What the model is fed: checked before the first step, timed, written down and compared."""
