"""Reads, checks and draws the records of data directories; extracts some again from their audio."""
