"""The check of a data directory, which trusts nothing but its dataset_info.json."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.records import record_checks
from tfrecord_builder.storage import files
from tfrecord_builder.tokens import readings, vocabulary
from tfrecord_builder.verification import problems, shards


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
        saved: its vocabularies, see load_vocabularies.
        advance: called with the number of bytes read.
    """
    yield from _check_sidecar_files(data_dir, info)
    if saved is None:
        text = "labels and features of the records are not checked without the vocabularies"
        yield problems.Problem(problems.FILES, data_dir, text)
    expected = saved and record_checks.Expected.of(saved, info)
    checker = shards.ShardChecker(data_dir, expected, advance)
    for shard in info.shards:
        yield from checker.check(shard)


def load_vocabularies(data_dir: str, info: dataset_info.DatasetInfo) -> Optional[vocabularies.Vocabularies]:
    """Loads the vocabularies; returns None if one is not that of the records."""
    tokens, characters, pairs = (
        os.path.join(data_dir, name)
        for name in (dataset_info.TOKENS_FILE, dataset_info.CHARACTERS_FILE, dataset_info.READINGS_FILE)
    )
    try:
        found = vocabularies.Vocabularies(
            vocabulary.Vocabulary.load(tokens),
            vocabulary.Vocabulary.load(characters),
            readings.Readings.load(pairs),
        )
    except (errors.UserError, OSError):
        return None
    is_same = (found.tokens.sha256, found.characters.sha256) == (info.tokens_sha256, info.characters_sha256)
    return found if is_same else None


def _check_sidecar_files(data_dir: str, info: dataset_info.DatasetInfo) -> Iterator[problems.Problem]:
    """Yields a problem for each file that is missing or was changed."""
    for name, expected in _sha256s(info).items():
        path = os.path.join(data_dir, name)
        if not expected:  # an earlier version did not save it
            continue
        try:
            found = files.sha256(path)
        except OSError as error:
            yield problems.unreadable(path, error)
        else:
            if found != expected:
                yield problems.wrong_sha256(path, found, expected)


def _sha256s(info: dataset_info.DatasetInfo) -> dict[str, str]:
    return {
        dataset_info.TOKENS_FILE: info.tokens_sha256,
        dataset_info.CHARACTERS_FILE: info.characters_sha256,
        dataset_info.READINGS_FILE: info.readings_sha256,
        dataset_info.BPE_FILE: info.bpe_sha256,
        dataset_info.REJECTED_FILE: info.rejected_sha256,
        dataset_info.REPORT_FILE: info.report_sha256,
        **{recordings.path_of(shard.file): shard.items_sha256 for shard in info.shards},
    }
