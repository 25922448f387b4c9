"""Readers of corpora, by the kind of their layout; registry.py has the name of each."""
