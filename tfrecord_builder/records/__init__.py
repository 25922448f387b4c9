"""Reads TFRecord files back: framing, checks, search, pictures."""
