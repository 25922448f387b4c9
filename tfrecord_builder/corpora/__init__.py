"""Readers of corpora, one module per kind of layout; registry.py has their names."""
