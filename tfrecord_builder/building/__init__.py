"""Turns a corpus into a data directory.

builder runs the steps: listing reads the corpus into the catalog, chunks labels its utterances, sharding
assigns them to shards, shard_writer writes the records, and summary puts together dataset_info.json.
output_directory manages the directory during the build, report/ writes a page about it, and verification/
checks it afterwards. resumable and engines/ do not depend on corpora: they run any program's units of work
in local processes, on Spark or on Ray.
"""
