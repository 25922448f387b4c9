"""Synthesises speech corpora: has speakers read text, and writes the recordings and a manifest."""
