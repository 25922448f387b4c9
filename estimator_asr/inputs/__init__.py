"""TFRecords to padded batches."""
