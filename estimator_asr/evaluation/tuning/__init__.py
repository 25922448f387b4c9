"""Searches for the decoding weights with the fewest errors on dev."""
