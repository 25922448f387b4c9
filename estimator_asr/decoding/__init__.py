"""Decoding: turns logits into text.

search/ finds the best hypotheses. ngrams/ estimates and reads the n-gram models that rank hypotheses.
hotwords/ favours words that a user lists. sequences turns token ids into text.
"""
