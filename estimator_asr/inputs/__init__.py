"""TFRecords to padded batches.

splits finds the shards of a split, record_index and shard_cache their records, order shuffles them, buckets
plans batches of similar length, batches takes the rows of a replica, and input_fn joins these to the
Estimator's input_fn, with spec_augment for training.
"""
