"""Input pipeline: turns TFRecords into padded batches, for training and for all kinds of evaluation.

input_fn connects the stages of the pipeline: record_index finds and reads records, batch_plan chooses the
records for each batch, and batches parses, masks and pads them. splits lists the shards of a split, and
shard_cache copies remote shards into a bounded_directory. buckets chooses the lengths and sizes of batches,
and input_progress computes the position at which a run continues. CONTRIBUTING.md describes the path from a
record to its loss.
"""
