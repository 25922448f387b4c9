"""Tensors in, tensors out: the acoustic and the language model."""
