"""The check of a data directory, which trusts nothing but its dataset_info.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfrecord_builder import dataset_info
from tfrecord_builder.records import record_checks
from tfrecord_builder.verification import problems, shards, sidecar_files


class Verification:
    """The check of one data directory.

    Attributes:
      info: its dataset_info.json.
      vocabularies: those of its records; None if they are missing or were changed.
      num_records: how many records were read.
    """

    def __init__(self, data_dir: str):
        """Loads dataset_info.json and the vocabularies; raises errors.UserError without the first."""
        self.info = dataset_info.DatasetInfo.load(data_dir)
        self.vocabularies = sidecar_files.load_vocabularies(data_dir, self.info)
        self.num_records = 0
        self._data_dir = data_dir

    @property
    def shards(self) -> list[dataset_info.ShardInfo]:
        """All shards, by split."""
        return [shard for _, split in sorted(self.info.splits.items()) for shard in split.shards]

    def problems(self, advance: Callable[[int], object]) -> Iterator[problems.Problem]:
        """Yields every problem as it is found; calls advance with the number of bytes read."""
        yield from sidecar_files.check(self._data_dir, self.info)
        if self.vocabularies is None:
            text = "labels and features of the records are not checked without the vocabularies"
            yield problems.Problem(problems.FILES, self._data_dir, text)
        checker = shards.ShardChecker(self._data_dir, self._expected(), advance)
        for shard in self.shards:
            yield from checker.check(shard)
        self.num_records = checker.num_records

    def _expected(self) -> record_checks.Expected | None:
        saved, info = self.vocabularies, self.info
        if saved is None:
            return None
        return record_checks.Expected(saved.tokens, saved.characters, info.frontend, info.fbank_dtype)
