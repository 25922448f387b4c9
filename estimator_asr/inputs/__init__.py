"""Input pipeline: turns TFRecords into padded batches, for training and for everything that evaluates.

input_fn has the stages of the pipeline: record_index finds and reads records, batch_plan chooses the records
of each batch, and batches parses, masks and pads them. splits lists the shards of a split, and shard_cache
copies remote ones into a bounded_directory. buckets chooses lengths and sizes of batches, and input_progress
computes the position at which a run continues. CONTRIBUTING.md lists the way from a record to its loss.
"""
