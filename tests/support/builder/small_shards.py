"""Assigns items to shards, and runs units of work."""

import collections
import pathlib
import tempfile

from tfrecord_builder.building import catalog, sharding
from tfrecord_builder.building.engines import dispatch


def write(items, num_shards: int, directory) -> list[sharding.PlannedShard]:
    """Assigns items to shards and writes the .jsonl file of each shard."""
    split_sizes = collections.Counter(item.utterance.split for item in items)
    with tempfile.TemporaryDirectory() as scratch, catalog.open_new(scratch) as corpus:
        labelled = pathlib.Path(scratch, "labelled")
        labelled.write_bytes(b"".join(sorted(map(sharding.to_labelled_line, items))))
        return sharding.write([str(labelled)], split_sizes, num_shards, str(directory), corpus)


def run_here(units, writer, title: str, num_workers: int = 1) -> list:
    """Runs units on the local engine; returns their receipts."""
    with dispatch.connect(dispatch.LOCAL, num_workers) as run:
        return run(units, writer, title)
