"""Checks data directories for damage.

    python -m tfrecord_builder.verify --data_dir=DATA[,DATA2]
    python -m tfrecord_builder.verify --data_dir=DATA --sample=100

Reads every byte and every record, and prints one line per problem with the shard, the record's 0-based
number and byte offset, and the utterance. The exit code is 1 if there is a problem. With --sample, the
features of that many records are also extracted from the audio again and compared with the stored ones.
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import collections
import dataclasses
from collections.abc import Iterable

import tqdm

from tfrecord_builder import errors
from tfrecord_builder.building.verification import data_directory, reextraction
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import config_flags, program, progress_bar

_MAX_LINES = 20  # lines printed per directory for each kind of problem


@dataclasses.dataclass(frozen=True)
class VerifyConfig(config_flags.Checked):
    """The data directories to check, and the number of records to extract again."""

    data_dir: tuple[str, ...] = config_flags.setting((), "comma-separated data directories", required=True)
    sample: int = config_flags.setting(
        0,
        "number of records per directory whose features are extracted from the audio again and compared",
        minimum=0,
    )
    seed: int = config_flags.setting(1, "random seed for --sample", minimum=0)


def main(config: VerifyConfig) -> int:
    """Checks every directory; returns the exit code, which is 1 if there is a problem."""
    results = [verify(data_dir, config.sample, config.seed) for data_dir in config.data_dir]
    return 0 if all(results) else 1


def verify(data_dir: str, num_samples: int, seed: int) -> bool:
    """Checks one directory and prints its problems; returns True if there are none."""
    printed: collections.Counter = collections.Counter()
    try:
        info = dataset_info.DatasetInfo.load(data_dir)
    except (errors.UserError, OSError) as error:
        print(error if isinstance(error, errors.UserError) else f"{error.filename}: {error.strerror}")
        return False
    saved = data_directory.load_vocabularies(data_dir, info)
    num_bytes = sum(shard.num_bytes for shard in info.shards)
    num_records = sum(shard.num_records for shard in info.shards)
    with progress_bar.ProgressBar(desc="verifying", total=num_bytes, unit="B", unit_scale=True) as bar:
        _print(data_directory.check(data_dir, info, saved, bar.update), printed)
    if num_samples and saved:
        num_samples = min(num_samples, num_records)
        with progress_bar.ProgressBar(desc="extracting again", total=num_samples, unit="utt") as bar:
            sample_check = reextraction.Reextraction(data_dir, info, saved, bar.update)
            _print(sample_check.problems(num_samples, seed), printed)
    for kind, count in printed.items():
        if count > _MAX_LINES:
            print(f"{data_dir}: and {count - _MAX_LINES} more {kind}")
    outcome = f"problems: {sum(printed.values())}" if printed else "no problems"
    print(f"{data_dir}: {len(info.shards)} shards, {num_records} records, {outcome}")
    return not printed


def _print(problems: Iterable[data_directory.Problem], printed: collections.Counter) -> None:
    for problem in problems:
        printed[problem.kind] += 1
        if printed[problem.kind] <= _MAX_LINES:
            tqdm.tqdm.write(str(problem))


if __name__ == "__main__":
    program.run(main, VerifyConfig)
