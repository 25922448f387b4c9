"""The acoustic and the language model, as functions from tensors to tensors."""
