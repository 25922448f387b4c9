"""Measures Debian's input methods on the lines that a language model is measured on."""
