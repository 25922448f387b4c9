"""Input pipeline: turns TFRecords into padded batches, for training and for everything that evaluates.

From a record to its loss, in the order of reading:

    inputs/input_fn.py                 the stages of the pipeline
    inputs/record_index.py             where each record is, and the reader
    inputs/batch_plan.py               which records each batch has
    inputs/batches.py                  parsed, masked and padded rows of one replica
    tfrecord_builder/data/schema.py    the format of a record
    training/model_fn.py               the batch in the Estimator's step
    models/tasks/registry.py           the task of the model
    models/tasks/task.py               forward: the graph, then losses and metrics
    models/tasks/acoustic.py           the task of speech (language.py: of text)
    models/acoustic.py                 encoder, CTC head and decoder
    models/feature_norm.py             normalised features
    models/encoders.py                 the blocks of the encoder
    models/losses.py                   CTC and cross-entropy
    models/tasks/metrics.py            the sum of the losses over its number of labels

splits lists the shards of a split, and shard_cache copies remote shards into a bounded_directory. buckets
chooses the lengths and sizes of batches, and input_progress computes the position at which a run continues.
"""
