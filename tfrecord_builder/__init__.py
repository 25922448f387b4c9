"""Corpus to spectrogram and label TFRecords; knows no model."""
