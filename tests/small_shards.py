"""Shards of items that a test makes up."""

from __future__ import annotations

from tfrecord_builder import plan, spool


def write(items, num_shards: int, directory) -> list[plan.Shard]:
    """Plans shards, and writes the file of the items of each."""
    spooled = spool.Spool(":memory:")
    for item in items:
        spooled.add_item(item)
    return plan.write(spooled, num_shards, str(directory))
