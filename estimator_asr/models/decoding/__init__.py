"""CTC decoding as TensorFlow operations: logits in, hypotheses out."""
