"""CTC decoding as TensorFlow operations: from logits to hypotheses."""
