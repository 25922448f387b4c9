"""Catalog of a build: its utterances, the items of its shards and what was rejected, on disk.

Every build makes one for itself, so that its memory does not grow with the corpus. An SQLite database has the
ids and splits of the utterances; list files, which workers read, have all the rest.
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
from tfrecord_builder.data import manifest, schema
from tfrecord_builder.settings import config_json
from tfrecord_builder.storage import files

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE utterances (row INTEGER PRIMARY KEY, id TEXT UNIQUE, split TEXT);
CREATE TABLE items (id TEXT, split TEXT, sentence BLOB);
CREATE TABLE rejected (row INTEGER PRIMARY KEY, id TEXT, split TEXT, reason TEXT, audio TEXT);
CREATE TABLE groups (digest BLOB, row INTEGER, PRIMARY KEY (digest, row)) WITHOUT ROWID;
"""
_SENTENCES = f"""
CREATE TABLE sentences (sentence BLOB, split TEXT, PRIMARY KEY (sentence, split)) WITHOUT ROWID;
INSERT INTO sentences SELECT DISTINCT sentence, split FROM items
  WHERE id NOT IN (SELECT id FROM rejected) AND NOT instr(id, '{schema.WORDLESS}') ORDER BY sentence, split;
"""
_SHARED = """
SELECT ours.split, theirs.split, count(*) FROM sentences ours JOIN sentences theirs USING (sentence)
WHERE ours.split != theirs.split GROUP BY 1, 2
"""
# The details after ": " differ from utterance to utterance.
_REASONS = """
SELECT substr(reason, 1, instr(reason || ': ', ': ') - 1) AS kind, count(*) FROM rejected
GROUP BY kind ORDER BY count(*) DESC, min(row)
"""


@dataclasses.dataclass(frozen=True)
class UtteranceList:
    """A range of the corpus: a file with an utterance per line, as JSON.

    Attributes:
        sha256: hash of the file.
        splits: for each utterance the index of its split in manifest.SPLITS, a digit; the file does not know
            which utterances have been moved to dev.
    """

    file: str
    sha256: str
    splits: str

    def read(self, directory: str) -> Iterator[manifest.Utterance]:
        """Yields the utterances of the file in a directory; raises UserError if it is damaged."""
        path = os.path.join(directory, self.file)
        with files.open_binary(path) as file:
            content = file.read()
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 != self.sha256:
            raise errors.UserError(
                f"{path}: sha256 is {sha256}, expected {self.sha256} as it was written; "
                "check the disk or store and run the build again, which lists the corpus again."
            )
        for line, split in zip(content.splitlines(), self.splits):
            described = {**config_json.parse(line), "split": manifest.SPLITS[int(split)]}
            yield manifest.Utterance(**described)


class Catalog:
    """The utterances of a build, in a directory that has no catalog yet."""

    def __init__(self, directory: str, database: sqlite3.Connection):
        self._directory, self._database = directory, database
        self._files: list[tuple[str, str, int]] = []  # name, sha256 and number of utterances of each list
        database.executescript(_SCHEMA)
        database.execute("BEGIN")  # one transaction: nobody else reads this

    def add_list(self, utterances: Iterable[manifest.Utterance]) -> int:
        """Adds utterances and writes them to a list of their own; returns their number.

        Raises UserError if an id is a duplicate, is empty, or would break a table.
        """
        lines = list(map(self._add, utterances))
        if lines:
            content, file = b"".join(lines), f"{len(self._files):05d}.listed"
            with open(os.path.join(self._directory, file), "wb") as output:
                output.write(content)
            self._files.append((file, hashlib.sha256(content).hexdigest(), len(lines)))
        return len(lines)

    def lists(self) -> Iterator[UtteranceList]:
        """Yields the lists of the utterances, in the order of the corpus."""
        rows = self._database.execute("SELECT split FROM utterances ORDER BY row")
        for file, sha256, count in self._files:
            splits = (str(manifest.SPLITS.index(split)) for (split,) in itertools.islice(rows, count))
            yield UtteranceList(file, sha256, "".join(splits))

    def utterances(self, split: Optional[str] = None) -> Iterator[manifest.Utterance]:
        """Yields the utterances of the corpus, or those of one split, in the order of the corpus."""
        everything = itertools.chain.from_iterable(part.read(self._directory) for part in self.lists())
        return (utterance for utterance in everything if split in (None, utterance.split))

    def count_utterances(self, split: Optional[str] = None) -> int:
        """Returns the number of utterances of the corpus, or of one split."""
        return self._count("SELECT count(*) FROM utterances WHERE split = coalesce(?, split)", split)

    def group(self, split: str, key: Callable[[manifest.Utterance], str]) -> int:
        """Groups the utterances of a split by a key; returns the number of groups."""
        self._database.execute("DELETE FROM groups")
        for row, utterance in enumerate(self.utterances(), 1):
            if utterance.split == split:
                digest = hashlib.sha256(key(utterance).encode()).digest()
                self._database.execute("INSERT INTO groups VALUES (?, ?)", (digest, row))
        return self._count("SELECT count(DISTINCT digest) FROM groups")

    def group_sizes(self) -> Iterator[tuple[bytes, int]]:
        """Yields the sha256 of the key of each group, in ascending order, and the group's size."""
        return self._database.execute("SELECT digest, count(*) FROM groups GROUP BY digest ORDER BY digest")

    def move_groups(self, digests: Iterable[bytes], split: str) -> None:
        """Moves the utterances of groups to another split."""
        rows = "SELECT row FROM groups WHERE digest = ?"
        self._database.executemany(
            f"UPDATE utterances SET split = ? WHERE row IN ({rows})", ((split, each) for each in digests)
        )

    def add_items(self, rows: Iterable[tuple[str, str, bytes]]) -> None:
        """Adds id, split and sentence of each item (utterance or copy) that is assigned to a shard."""
        self._database.executemany("INSERT INTO items VALUES (?, ?, ?)", rows)

    def reject(self, rows: Iterable[Sequence[Optional[str]]]) -> None:
        """Adds id, split, reason and path of the recording of each rejected utterance or item."""
        for name, split, reason, audio in rows:
            path = (audio or "").encode("utf-8", "backslashreplace").decode()  # its name may not be UTF-8
            query = "INSERT INTO rejected (id, split, reason, audio) VALUES (?, ?, ?, ?)"
            self._database.execute(query, (name, split, reason, path))

    def rejected(self) -> Iterator[tuple[str, str, str, str]]:
        """Yields id, split, reason and path of the recording of everything that was rejected."""
        return self._database.execute("SELECT id, split, reason, audio FROM rejected ORDER BY row")

    def reasons(self) -> list[tuple[str, int]]:
        """Returns each reason for rejection without details and its count, the most frequent first."""
        return list(self._database.execute(_REASONS))

    def count_candidates(self) -> int:
        """Returns the number of items, plus that of utterances that were rejected before they became one."""
        num_others = self._count("SELECT count(*) FROM items WHERE id NOT IN (SELECT id FROM rejected)")
        return num_others + self._count("SELECT count(*) FROM rejected")

    def sentences(self) -> dict[str, tuple[int, dict[str, int]]]:
        """Counts the distinct sentences of the items that were not rejected; call it once, at the end.

        Returns:
            The number of each split, and how many also occur in another split: {dev: (893, {train: 12})}.
        """
        self._database.execute("COMMIT")
        self._database.executescript(_SENTENCES)
        counts = dict(self._database.execute("SELECT split, count(*) FROM sentences GROUP BY split"))
        shared: dict[str, dict[str, int]] = {split: {} for split in counts}
        for ours, theirs, count in self._database.execute(_SHARED):
            shared[ours][theirs] = count
        return {split: (count, shared[split]) for split, count in counts.items()}

    def _add(self, utterance: manifest.Utterance) -> bytes:
        """Returns the line of an utterance."""
        name = utterance.utterance_id
        if not name or any(separator in name for separator in "\t\n\r"):
            raise errors.UserError(
                f"--corpus_dir: an utterance id is {name!r}, expected one without tabs and line breaks, "
                "which separate the columns and rows of tables; rename the utterance."
            )
        try:
            query = "INSERT INTO utterances (id, split) VALUES (?, ?)"
            self._database.execute(query, (name, utterance.split))
        except sqlite3.IntegrityError:
            raise errors.UserError(
                f"--corpus_dir: the utterance id {name} is a duplicate; "
                "give every utterance, in all directories together, an id of its own."
            ) from None
        return json.dumps(vars(utterance)).encode() + b"\n"

    def _count(self, query: str, *values) -> int:
        return self._database.execute(query, values).fetchone()[0]


@contextlib.contextmanager
def open_new(directory: str) -> Iterator[Catalog]:
    """Makes a catalog in a directory and closes it at the end; raises OSError if the disk is full."""
    path = os.path.join(directory, "catalog.sqlite")
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            yield Catalog(directory, database)
    except sqlite3.OperationalError as error:
        raise OSError(errno.ENOSPC, str(error), path) from error
