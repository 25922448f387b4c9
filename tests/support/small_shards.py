"""Shards of items that a test makes up."""

from __future__ import annotations

from tfrecord_builder.building import catalog, sharding


def write(items, num_shards: int, directory) -> list[sharding.Shard]:
    """Plans shards, and writes the file of the items of each."""
    spooled = catalog.Spool(":memory:")
    for item in items:
        spooled.add_item(item)
    return sharding.write(spooled, num_shards, str(directory))
