"""Searches for the decoding weights that make the fewest errors on dev."""
