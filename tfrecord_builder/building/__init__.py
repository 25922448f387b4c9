"""Builds a data directory: catalog of utterances, shards, workers, statistics, report."""
