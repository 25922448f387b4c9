"""Everything that can be wrong with a data directory, found without trust in what it says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from tfrecord_builder import dataset_info
from tfrecord_builder.records import record_checks
from tfrecord_builder.verification import duplicate_index, problems, recount, shards, sidecar_files


class Verification:
    """The check of one data directory.

    Attributes:
      info: what its dataset_info.json says.
      vocabularies: those of its records; None if they are not whole.
      num_shards, num_records: what was read.
    """

    def __init__(self, data_dir: str):
        """Raises errors.UserError without a whole dataset_info.json."""
        self.info = dataset_info.DatasetInfo.load(data_dir)
        self.vocabularies = sidecar_files.load_vocabularies(data_dir, self.info)
        self.num_shards = sum(len(split.shards) for split in self.info.splits.values())
        self.num_records = 0
        self._data_dir = data_dir

    @property
    def num_bytes(self) -> int:
        """How much there is to read by dataset_info.json."""
        return sum(shard.num_bytes for split in self.info.splits.values() for shard in split.shards)

    def problems(self, advance: Callable[[int], object]) -> Iterator[problems.Problem]:
        """Yields everything that is wrong, as it is found; calls advance with the number of bytes read."""
        yield from sidecar_files.check(self._data_dir, self.info)
        expected = self._expected()
        if expected is None:
            what = "labels and features of its records are not checked without their vocabularies"
            yield problems.Problem(problems.FILES, self._data_dir, what)
        seen = duplicate_index.Sightings()
        checker = shards.ShardChecker(self._data_dir, expected, seen, advance)
        is_right = expected is not None
        for name in sorted(self.info.splits):
            counted = recount.Recount(expected)
            is_split_right = expected is not None
            for shard in self.info.splits[name].shards:
                for problem in checker.check(shard, name, counted):
                    yield problem
                    is_split_right = False
            if is_split_right:  # else the totals of what could be read say nothing
                yield from self._check_totals(name, counted)
            is_right = is_right and is_split_right
        self.num_records = checker.num_records
        if is_right:
            yield from self._check_sentences(seen)

    def _expected(self) -> record_checks.Expected | None:
        saved, info = self.vocabularies, self.info
        if saved is None:
            return None
        return record_checks.Expected(saved.tokens, saved.characters, info.frontend, info.fbank_dtype)

    def _check_totals(self, split: str, counted: recount.Recount) -> Iterator[problems.Problem]:
        for what in counted.problems(self.info.splits[split]):
            yield self._total_problem(f"{split}: {what}")
        if split == "train":
            for what in counted.moment_problems(self.info):
                yield self._total_problem(what)

    def _check_sentences(self, seen: duplicate_index.Sightings) -> Iterator[problems.Problem]:
        for name, split in sorted(self.info.splits.items()):
            if not split.num_sentences:  # data of an earlier version do not say
                continue
            pairs = [("num_sentences", split.num_sentences, seen.num_sentences(name))]
            for other, said in sorted(split.shared_sentences.items()):
                pairs.append((f"shared_sentences with {other}", said, seen.num_shared(name, other)))
            for what, said, found in pairs:
                if said != found:
                    yield self._total_problem(f"{name}: {what} is {said}, expected {found} by its records")

    def _total_problem(self, what: str) -> problems.Problem:
        path = os.path.join(self._data_dir, dataset_info.INFO_FILE)
        return problems.Problem(problems.TOTALS, path, f"{what}; {problems.AGAIN}")
