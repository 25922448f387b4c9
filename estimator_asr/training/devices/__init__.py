"""On which devices, processes and machines a training runs."""
