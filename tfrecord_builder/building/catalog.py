"""The catalog of a build: the utterances, the items in the shards, and the rejected utterances.

The catalog is kept on disk, so that a build's memory use does not grow with the corpus. An SQLite database
stores the ids and splits of the utterances. List files, which workers read, store the utterances themselves.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import copy_ids
from tfrecord_builder.data import manifest
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

EXCLUDED = "excluded by --exclude"  # rejections with this reason do not count towards --max_rejected
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE utterances (row INTEGER PRIMARY KEY, id TEXT UNIQUE, split TEXT);
CREATE TABLE items (id TEXT, split TEXT, sentence BLOB);
CREATE TABLE rejected (row INTEGER PRIMARY KEY, id TEXT, split TEXT, reason TEXT, audio TEXT);
CREATE TABLE segments (audio BLOB, start REAL, seconds REAL, channel INTEGER);
CREATE TABLE groups (digest BLOB, row INTEGER, PRIMARY KEY (digest, row)) WITHOUT ROWID;
"""
_SENTENCES = f"""
CREATE TABLE sentences (sentence BLOB, split TEXT, PRIMARY KEY (sentence, split)) WITHOUT ROWID;
INSERT INTO sentences SELECT DISTINCT sentence, split FROM items
  WHERE id NOT IN (SELECT id FROM rejected) AND NOT instr(id, '{copy_ids.WORDLESS}') ORDER BY sentence, split;
"""
_SHARED = """
SELECT ours.split, theirs.split, count(*) FROM sentences ours JOIN sentences theirs USING (sentence)
WHERE ours.split != theirs.split GROUP BY 1, 2
"""
# Counts rejections by reason, ignoring the details after ": ", which differ between utterances.
_REASONS = """
SELECT substr(reason, 1, instr(reason || ': ', ': ') - 1) AS kind, count(*) FROM rejected
GROUP BY kind ORDER BY count(*) DESC, min(row)
"""


@dataclasses.dataclass(frozen=True)
class UtteranceList:
    """Consecutive utterances of the corpus, stored in a file with one JSON object per line.

    Attributes:
        sha256: hash of the file.
        splits: one digit per utterance, the index of its split in manifest.SPLITS. The split in the file may
            be outdated, because utterances can be moved to dev after the file is written.
    """

    file: str
    sha256: str
    splits: str

    def read(self, directory: str) -> Iterator[manifest.Utterance]:
        """Yields the utterances from `file` in `directory`; raises UserError if the file has changed."""
        path = os.path.join(directory, self.file)
        with files.open_binary(path) as file:
            content = file.read()
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 != self.sha256:
            raise errors.UserError(
                f"{path} has changed since it was written: its sha256 is {sha256}, expected {self.sha256}. "
                "Check the disk or object store, then run the build again."
            )
        for line, split in zip(content.splitlines(), self.splits):
            fields = {**config_json.parse(line), "split": manifest.SPLITS[int(split)]}
            yield manifest.Utterance(**fields)


class Catalog:
    """The catalog of a build, created in a directory that does not contain a catalog yet."""

    def __init__(self, directory: str, database: sqlite3.Connection):
        self._directory, self._database = directory, database
        self._files: list[tuple[str, str, int]] = []  # one (name, sha256, number of utterances) per list
        database.executescript(_SCHEMA)
        database.execute("BEGIN")  # one long transaction, because no other process reads the database

    def add_list(self, utterances: Iterable[manifest.Utterance]) -> int:
        """Adds utterances and writes them to a new list file; returns the number of utterances.

        Raises UserError if an id is a duplicate, is empty, or contains a tab or line break.
        """
        lines = list(map(self._add, utterances))
        if lines:
            content, file = b"".join(lines), f"{len(self._files):05d}.listed"
            with open(os.path.join(self._directory, file), "wb") as output:
                output.write(content)
            self._files.append((file, hashlib.sha256(content).hexdigest(), len(lines)))
        return len(lines)

    def lists(self) -> Iterator[UtteranceList]:
        """Yields the utterance lists in corpus order."""
        rows = self._database.execute("SELECT split FROM utterances ORDER BY row")
        for file, sha256, count in self._files:
            splits = (str(manifest.SPLITS.index(split)) for (split,) in itertools.islice(rows, count))
            yield UtteranceList(file, sha256, "".join(splits))

    def utterances(self, split: Optional[str] = None) -> Iterator[manifest.Utterance]:
        """Yields, in corpus order, the utterances in `split`, or all utterances if it is None."""
        everything = itertools.chain.from_iterable(part.read(self._directory) for part in self.lists())
        return (utterance for utterance in everything if split in (None, utterance.split))

    def count_utterances(self, split: Optional[str] = None) -> int:
        """Returns the number of utterances in the corpus or in one split."""
        return self._count("SELECT count(*) FROM utterances WHERE split = coalesce(?, split)", split)

    def group(self, split: str, key: Callable[[manifest.Utterance], str]) -> int:
        """Groups the utterances of a split by the key that `key` returns; returns the number of groups."""
        self._database.execute("DELETE FROM groups")
        for row, utterance in enumerate(self.utterances(), 1):
            if utterance.split == split:
                digest = hashlib.sha256(key(utterance).encode()).digest()
                self._database.execute("INSERT INTO groups VALUES (?, ?)", (digest, row))
        return self._count("SELECT count(DISTINCT digest) FROM groups")

    def group_sizes(self) -> Iterator[tuple[bytes, int]]:
        """Yields (sha256 of the key, number of utterances) for each group, sorted by sha256."""
        return self._database.execute("SELECT digest, count(*) FROM groups GROUP BY digest ORDER BY digest")

    def move_groups(self, digests: Iterable[bytes], split: str) -> None:
        """Moves groups, identified by the sha256 of their keys, to another split."""
        rows = "SELECT row FROM groups WHERE digest = ?"
        self._database.executemany(
            f"UPDATE utterances SET split = ? WHERE row IN ({rows})", ((split, digest) for digest in digests)
        )

    def segments(self) -> Iterator[tuple[str, tuple[manifest.Segment, ...]]]:
        """Yields (recording, segments) for each recording with at least two different segments."""
        rows = self._database.execute("SELECT DISTINCT * FROM segments ORDER BY audio, start")
        for audio, group in itertools.groupby(rows, lambda row: row[0]):
            segments = tuple(row[1:] for row in group)
            if len(segments) > 1:
                yield os.fsdecode(audio), segments

    def add_items(self, rows: Iterable[tuple[str, str, bytes]]) -> None:
        """Adds items (utterances or augmented copies); each row is (id, split, sentence hash)."""
        self._database.executemany("INSERT INTO items VALUES (?, ?, ?)", rows)

    def reject(self, rows: Iterable[Sequence[Optional[str]]]) -> None:
        """Adds rejected utterances or items; each row is (id, split, reason, audio path)."""
        for name, split, reason, audio in rows:
            path = (audio or "").encode("utf-8", "backslashreplace").decode()  # not all file names are UTF-8
            query = "INSERT INTO rejected (id, split, reason, audio) VALUES (?, ?, ?, ?)"
            self._database.execute(query, (name, split, reason, path))

    def rejected(self) -> Iterator[tuple[str, str, str, str]]:
        """Yields (id, split, reason, audio path) for each rejected utterance or item."""
        return self._database.execute("SELECT id, split, reason, audio FROM rejected ORDER BY row")

    def reasons(self) -> list[tuple[str, int]]:
        """Returns (reason without details, number of rejections) pairs, most frequent first."""
        return list(self._database.execute(_REASONS))

    def count_candidates(self) -> int:
        """Returns the number of items plus the number of utterances rejected before they became items."""
        num_others = self._count("SELECT count(*) FROM items WHERE id NOT IN (SELECT id FROM rejected)")
        return num_others + self._count("SELECT count(*) FROM rejected")

    def sentences(self) -> dict[str, tuple[int, dict[str, int]]]:
        """Counts the distinct sentences in the items that were not rejected.

        Returns, for each split, the number of sentences, and how many of them also occur in each other split,
        for example {"dev": (893, {"train": 12})}. Can be called only once, when the catalog is complete.
        """
        self._database.execute("COMMIT")
        self._database.executescript(_SENTENCES)
        counts = dict(self._database.execute("SELECT split, count(*) FROM sentences GROUP BY split"))
        shared: dict[str, dict[str, int]] = {split: {} for split in counts}
        for split, other, count in self._database.execute(_SHARED):
            shared[split][other] = count
        return {split: (count, shared[split]) for split, count in counts.items()}

    def _add(self, utterance: manifest.Utterance) -> bytes:
        """Adds an utterance to the database; returns its line for the list file."""
        name = utterance.utterance_id
        if not name or any(separator in name for separator in "\t\n\r"):
            raise errors.UserError(
                f"--corpus_dir: {name!r} is not a valid utterance id. Ids must not be empty or contain "
                "tabs or line breaks, which separate the columns and rows of tables; rename the utterance."
            )
        query = "INSERT INTO utterances (id, split) VALUES (?, ?)"
        try:
            self._database.execute(query, (name, utterance.split))
        except sqlite3.IntegrityError:
            raise errors.UserError(
                f"--corpus_dir: {name} is a duplicate utterance id; ids must be unique across all corpora."
            ) from None
        if utterance.audio and utterance.segment[:2] != (0, None):
            row = (os.fsencode(utterance.audio), *utterance.segment)
            self._database.execute("INSERT INTO segments VALUES (?, ?, ?, ?)", row)
        return json.dumps(vars(utterance)).encode() + b"\n"

    def _count(self, query: str, *values) -> int:
        return self._database.execute(query, values).fetchone()[0]


@contextlib.contextmanager
def open_new(directory: str) -> Iterator[Catalog]:
    """Creates a catalog in a directory and closes it on exit; raises OSError if the disk is full."""
    path = os.path.join(directory, "catalog.sqlite")
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            yield Catalog(directory, database)
    except sqlite3.OperationalError as error:
        raise OSError(errno.ENOSPC, str(error), path) from error
