"""The check of a data directory, which trusts nothing but its dataset_info.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Optional

from tfrecord_builder import dataset_info
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.records import record_checks
from tfrecord_builder.verification import problems, shards, sidecar_files


def check(
    data_dir: str,
    info: dataset_info.DatasetInfo,
    saved: Optional[vocabularies.Vocabularies],
    advance: Callable[[int], object],
) -> Iterator[problems.Problem]:
    """Yields every problem as it is found.

    Args:
        data_dir: the data directory.
        info: its dataset_info.json.
        saved: its vocabularies, see sidecar_files.
        advance: called with the number of bytes read.
    """
    yield from sidecar_files.check(data_dir, info)
    if saved is None:
        text = "labels and features of the records are not checked without the vocabularies"
        yield problems.Problem(problems.FILES, data_dir, text)
    expected = saved and record_checks.Expected.of(saved, info)
    checker = shards.ShardChecker(data_dir, expected, advance)
    for shard in info.shards:
        yield from checker.check(shard)
