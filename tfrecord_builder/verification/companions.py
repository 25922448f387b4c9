"""The files beside the shards: there, unchanged, and of the form that they should have."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Optional

from tfrecord_builder import dataset_info, errors, files, readings, vocabularies, vocabulary
from tfrecord_builder.verification import problems

_REJECTED_HEADER = b"utterance_id\tsplit\treason"


def check(data_dir: str, info: dataset_info.DatasetInfo) -> Iterator[problems.Problem]:
    """Yields what is wrong with the vocabularies and rejected.tsv."""
    for name, sha256 in (
        (dataset_info.TOKENS_FILE, info.tokens_sha256),
        (dataset_info.CHARACTERS_FILE, info.characters_sha256),
        (dataset_info.READINGS_FILE, info.readings_sha256),
        *(((dataset_info.BPE_FILE, info.bpe_sha256),) if info.bpe_sha256 else ()),
    ):
        path = os.path.join(data_dir, name)
        content = _read(path)
        found = hashlib.sha256(content or b"").hexdigest()
        if content is None:
            yield _missing(path)
        elif found != sha256:
            yield problems.sha256_problem(path, found, sha256)
    yield from _check_rejected(os.path.join(data_dir, dataset_info.REJECTED_FILE), info.num_rejected)


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
    except errors.UserError:
        return None
    is_same = (found.tokens.sha256, found.characters.sha256) == (info.tokens_sha256, info.characters_sha256)
    return found if is_same else None


def _check_rejected(path: str, num_rejected: int) -> Iterator[problems.Problem]:
    if not files.exists(path):
        yield _missing(path)
        return
    with files.open_binary(path) as file:
        header = file.readline().rstrip(b"\r\n")
        num_rows, num_right = 0, 0
        for line in file:
            num_rows, num_right = num_rows + 1, num_right + (line.count(b"\t") == 2)
    if header != _REJECTED_HEADER:
        what = f"its header is {header.decode('utf-8', 'replace')!r}, expected {_REJECTED_HEADER.decode()!r}"
        yield problems.Problem(problems.FILES, path, f"{what}; {problems.AGAIN}")
    if not num_rows == num_right == num_rejected:
        what = f"it has {num_rows} rows, {num_right} of three columns, expected {num_rejected}"
        yield problems.Problem(problems.FILES, path, f"{what}; {problems.AGAIN}")


def _read(path: str) -> Optional[bytes]:
    if not files.exists(path):
        return None
    with files.open_binary(path) as file:
        return file.read()


def _missing(path: str) -> problems.Problem:
    return problems.Problem(problems.FILES, path, f"it is missing; {problems.AGAIN}")
