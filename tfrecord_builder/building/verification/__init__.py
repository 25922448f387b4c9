"""Reads, checks and draws records in data directories, and rebuilds sampled records from their audio."""
