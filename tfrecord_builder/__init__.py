"""Builds TFRecords of speech features and labels from a corpus, independently of any model."""
