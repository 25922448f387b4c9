"""Decoding: turns logits into text.

search/ finds hypotheses, ngrams/ estimates and reads the n-gram models that rank them, hotwords/ favours
words that the user lists, and sequences turns token ids into text.
"""
