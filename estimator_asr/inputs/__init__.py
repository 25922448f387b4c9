"""Input pipeline: turns TFRecords into padded batches.

splits lists the shards of a split, shard_cache fetches remote shards, and record_index finds and reads
records. order shuffles records, buckets groups them by length, and batches prepares the rows of one replica.
input_fn combines all of these in the Estimator's input_fn; in training, spec_augment masks features.
"""
