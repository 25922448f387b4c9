"""Turns a corpus into a data directory.

builder runs the steps: listing reads the corpus into the catalog, chunks labels its utterances, sharding
assigns them to shards, cutting decodes long recordings, shard_writer writes the records, and summary
assembles dataset_info.json. output_directory manages the directory during the build, report/ writes a page
about the build, and verification/ checks the finished directory. resumable and engines/ do not depend on
corpora, and can run the units of work of any program in local processes, on Spark or on Ray.
"""
