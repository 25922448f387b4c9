"""Shards of items that a test makes up."""

from __future__ import annotations

from tfrecord_builder.building import catalog, sharding


def write(items, num_shards: int, directory) -> list[sharding.Shard]:
    """Assigns items to shards and writes the .jsonl file of each shard."""
    listed = catalog.Catalog(":memory:")
    for item in items:
        listed.add_utterance(item.utterance)
        copies = [(item.utterance.utterance_id, item.variant)]
        listed.add_labels(item.utterance, item.labels, item.signature, copies)
    return sharding.write(listed, num_shards, str(directory))
