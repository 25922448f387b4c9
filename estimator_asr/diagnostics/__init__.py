"""Explains a training: NaN recorder, memory probe, label and CTC checks, overfit test."""
