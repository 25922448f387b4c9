"""Checks training on this machine's GPUs against its CPU; run it first, and paste its table into issues."""
