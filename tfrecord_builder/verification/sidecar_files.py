"""The files beside the shards: there, unchanged, and of the form that they should have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Optional

from tfrecord_builder import dataset_info, errors, files, readings, vocabulary
from tfrecord_builder.building import items
from tfrecord_builder.labels import vocabularies
from tfrecord_builder.verification import problems

_REJECTED_COLUMNS = dataset_info.REJECTED_COLUMNS
_REJECTED_HEADERS = (_REJECTED_COLUMNS, _REJECTED_COLUMNS[:3])  # an earlier version wrote no recordings


def check(data_dir: str, info: dataset_info.DatasetInfo) -> Iterator[problems.Problem]:
    """Yields what is wrong with the vocabularies, rejected.tsv, the report and the items of the shards."""
    for name, sha256 in _hashes(info).items():
        if sha256:  # an earlier version did not note all of them
            yield from _check_sha256(os.path.join(data_dir, name), sha256)
    yield from _check_rejected(os.path.join(data_dir, dataset_info.REJECTED_FILE), info)


def load_vocabularies(data_dir: str, info: dataset_info.DatasetInfo) -> Optional[vocabularies.Vocabularies]:
    """Gives the vocabularies; None if one of them is not what the records were labelled with."""
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


def _hashes(info: dataset_info.DatasetInfo) -> dict[str, str]:
    shards = [shard for _, split in sorted(info.splits.items()) for shard in split.shards]
    return {
        dataset_info.TOKENS_FILE: info.tokens_sha256,
        dataset_info.CHARACTERS_FILE: info.characters_sha256,
        dataset_info.READINGS_FILE: info.readings_sha256,
        dataset_info.BPE_FILE: info.bpe_sha256,
        dataset_info.REJECTED_FILE: info.rejected_sha256,
        dataset_info.REPORT_FILE: info.report_sha256,
        **{items.path_of(shard.file): shard.items_sha256 for shard in shards},
    }


def _check_sha256(path: str, sha256: str) -> Iterator[problems.Problem]:
    try:
        found = files.sha256(path)
    except OSError as error:
        yield problems.unreadable(path, error)
    else:
        if found != sha256:
            yield problems.sha256_problem(path, found, sha256)


def _check_rejected(path: str, info: dataset_info.DatasetInfo) -> Iterator[problems.Problem]:
    """Yields where rejected.tsv has another form or another number of rows."""
    try:
        with files.open_binary(path) as file:
            header = tuple(file.readline().decode("utf-8", "replace").rstrip("\r\n").split("\t"))
            num_rows, num_right = 0, 0
            for line in file:
                num_rows, num_right = num_rows + 1, num_right + (line.count(b"\t") == len(header) - 1)
    except OSError as error:
        if not info.rejected_sha256:  # else it is said already
            yield problems.unreadable(path, error)
        return
    if header not in _REJECTED_HEADERS:
        what = f"its header is {', '.join(header)!r}, expected {', '.join(_REJECTED_COLUMNS)!r}"
        yield problems.Problem(problems.FILES, path, f"{what}; {problems.AGAIN}")
    if not num_rows == num_right == info.num_rejected:
        what = f"it has {num_rows} rows, {num_right} of {len(header)} columns, expected {info.num_rejected}"
        yield problems.Problem(problems.FILES, path, f"{what}; {problems.AGAIN}")
