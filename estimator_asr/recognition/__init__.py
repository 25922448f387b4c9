"""Recognises a split with a model directory or an export, and recordings in parallel units of work."""
