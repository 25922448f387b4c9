"""Devices, processes and machines of a training."""
