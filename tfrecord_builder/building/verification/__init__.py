"""Reads, checks and draws records in data directories, and makes sampled records again from their audio."""
