"""Checks of data directories: files, shards, records, and records extracted again from their audio."""
