"""Checks data directories: files, shards, and records, some of which are extracted again from their audio."""
