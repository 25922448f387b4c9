"""A build: catalog of utterances, shards, workers, output directory, statistics."""
