"""Searches for the decoding weights that lead to the fewest errors on dev."""
