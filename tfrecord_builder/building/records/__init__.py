"""Reading of TFRecord files: framing, checks, search, pictures."""
