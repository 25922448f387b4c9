"""Recognises a split with a model directory or an export, for evaluate, export and tune."""
