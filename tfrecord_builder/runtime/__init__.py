"""The machine: TensorFlow, its releases, the processor, fonts."""
