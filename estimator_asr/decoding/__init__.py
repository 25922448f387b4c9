"""Logits to text.

search/ finds hypotheses, ngrams/ estimates and reads the n-gram models that rank them, hotwords/ holds the
words that a user asks for, and sequences turns token ids into text.
"""
