"""Checks training on the GPUs of this machine beside its CPU; to be run first, and pasted into an issue."""
