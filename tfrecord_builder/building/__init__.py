"""A corpus becomes a data directory.

builder leads through the steps: listing reads the corpus into catalog, chunks labels its utterances,
sharding assigns them to shards, shard_writer writes the records, and summary writes dataset_info.json;
output/ is the directory in the making, report/ the page about it, and verification/ checks it afterwards.
resumable and engines/ know nothing of corpora: they run units of work of any program on local processes,
Spark or Ray.
"""
