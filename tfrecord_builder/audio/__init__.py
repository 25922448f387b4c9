"""Audio: decoding of files and feature extraction."""
