"""Reads, checks and draws records in data directories, and extracts samples again from their audio."""
