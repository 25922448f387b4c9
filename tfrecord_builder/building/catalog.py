"""The utterances of a build on disk, so that its memory does not grow with the corpus.

An SQLite database of the builder's own, made afresh by every run: what the corpus lists, what became of it,
and the items in the order in which they are dealt into shards.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator

from tfrecord_builder import errors, manifest
from tfrecord_builder.building import items

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE utterances (place INTEGER PRIMARY KEY, id TEXT UNIQUE, split TEXT, json TEXT);
CREATE TABLE items (digest BLOB, id TEXT UNIQUE, split TEXT, sentence TEXT, line TEXT);
CREATE TABLE rejected (place INTEGER PRIMARY KEY, id TEXT, split TEXT, reason TEXT, audio TEXT);
CREATE TABLE groups (digest BLOB, place INTEGER, PRIMARY KEY (digest, place)) WITHOUT ROWID;
"""
# What SQLite sorts without an index takes as much room in /tmp, which may be memory.
_ORDER = "CREATE INDEX IF NOT EXISTS items_in_order ON items (split, digest)"
_SENTENCES = """
CREATE TABLE sentences (sentence TEXT, split TEXT, PRIMARY KEY (sentence, split)) WITHOUT ROWID;
INSERT OR IGNORE INTO sentences
  SELECT sentence, split FROM items WHERE id NOT IN (SELECT id FROM rejected);
"""
_SHARED = """
SELECT ours.split, theirs.split, count(*) FROM sentences ours JOIN sentences theirs USING (sentence)
WHERE ours.split != theirs.split GROUP BY 1, 2
"""
# What follows ": " in a reason differs from utterance to utterance.
_REASONS = """
SELECT substr(reason, 1, instr(reason || ': ', ': ') - 1) AS kind, count(*) FROM rejected
GROUP BY kind ORDER BY count(*) DESC, min(place)
"""


@dataclasses.dataclass(frozen=True)
class Sentences:
    """Different sentences of each split, and how many of them stand in another split: {dev: {train: 893}}."""

    counts: dict[str, int]
    shared: dict[str, dict[str, int]]


class Spool:
    """What a build knows of its utterances.

    Args:
      path: the database to make; there must be no file of that name.
    """

    def __init__(self, path: str):
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.executescript(_SCHEMA)
        self._database.execute("BEGIN")  # one transaction: nobody else reads this

    def close(self) -> None:
        self._database.close()

    def add_utterance(self, utterance: manifest.Utterance) -> None:
        """Takes what the corpus lists.

        Raises:
          UserError: another utterance has its id, or it is no id.
        """
        _check_id(utterance.utterance_id)
        try:
            self._database.execute(
                "INSERT INTO utterances (id, split, json) VALUES (?, ?, ?)",
                (utterance.utterance_id, utterance.split, json.dumps(vars(utterance))),
            )
        except sqlite3.IntegrityError:
            raise errors.UserError(
                f"--corpus_dir: the utterance id {utterance.utterance_id} is there twice, expected once; "
                "give every utterance, in all the directories together, an id of its own."
            ) from None

    def utterances(self, split: str | None = None) -> Iterator[manifest.Utterance]:
        """Yields the utterances, or those of one split, as they were listed."""
        where, values = ("", ()) if split is None else ("WHERE split = ?", (split,))
        query = f"SELECT split, json FROM utterances {where} ORDER BY place"
        for now, line in self._database.execute(query, values):
            yield manifest.Utterance(**{**json.loads(line), "split": now})

    def group(self, split: str, name: Callable[[manifest.Utterance], str]) -> int:
        """Groups the utterances of a split by what name says of them; returns how many groups there are."""
        self._database.execute("DELETE FROM groups")
        for place, line in self._database.execute(
            "SELECT place, json FROM utterances WHERE split = ?", (split,)
        ):
            digest = hashlib.sha256(name(manifest.Utterance(**json.loads(line))).encode()).digest()
            self._database.execute("INSERT INTO groups VALUES (?, ?)", (digest, place))
        return self._count("SELECT count(DISTINCT digest) FROM groups")

    def group_sizes(self) -> Iterator[tuple[bytes, int]]:
        """Yields the sha256 of each group's name, in their order, and how many utterances it has."""
        return self._database.execute("SELECT digest, count(*) FROM groups GROUP BY digest ORDER BY digest")

    def smallest_group(self) -> bytes:
        """Returns the sha256 of the name of the smallest group; the first of those that are as small."""
        query = "SELECT digest FROM groups GROUP BY digest ORDER BY count(*), digest LIMIT 1"
        return self._database.execute(query).fetchone()[0]

    def move_groups(self, digests: Iterable[bytes], split: str) -> None:
        """Puts the utterances of some groups into another split."""
        places = "SELECT place FROM groups WHERE digest = ?"
        self._database.executemany(
            f"UPDATE utterances SET split = ? WHERE place IN ({places})", ((split, each) for each in digests)
        )

    def count_utterances(self, split: str | None = None) -> int:
        """Counts what was listed, in all or in one split."""
        if split is None:
            return self._count("SELECT count(*) FROM utterances")
        return self._count("SELECT count(*) FROM utterances WHERE split = ?", split)

    def count_listed(self) -> int:
        """Counts what could have gone into the shards: the items, and what was rejected before it was one."""
        rejected = "SELECT count(*) FROM rejected WHERE id NOT IN (SELECT id FROM items)"
        return self._count("SELECT count(*) FROM items") + self._count(rejected)

    def add_item(self, item: items.Item) -> None:
        """Takes what goes into a shard; its sentence is the transcript, or else the pronunciation.

        Raises:
          UserError: another item has its id, as a copy of an utterance may that is named like another.
        """
        name, sentence = item.utterance.utterance_id, item.labels.transcript or " ".join(item.labels.tokens)
        digest = hashlib.sha256(name.encode()).digest()
        row = (digest, name, item.utterance.split, sentence, items.to_line(item))
        try:
            self._database.execute("INSERT INTO items VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise errors.UserError(
                f"--corpus_dir: {name} is the id of an utterance and of a copy of another one, expected one "
                "of them; rename the utterance."
            ) from None

    def split_sizes(self) -> dict[str, int]:
        """Gives the number of items of each split, in the order of their names."""
        return dict(self._database.execute("SELECT split, count(*) FROM items GROUP BY split ORDER BY split"))

    def lines(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields id and line of the items of a split, in the order of the digests of their ids."""
        self._database.execute(_ORDER)
        query = "SELECT id, line FROM items WHERE split = ? ORDER BY digest"
        return self._database.execute(query, (split,))

    def reject(self, utterance_id: str, split: str, reason: str, audio: str | None) -> None:
        """Takes what is left out."""
        values = (utterance_id, split, reason, _printable(audio or ""))
        self._database.execute("INSERT INTO rejected (id, split, reason, audio) VALUES (?, ?, ?, ?)", values)

    def rejected(self) -> Iterator[tuple[str, str, str, str]]:
        """Yields utterance id, split, reason and recording of what was left out."""
        return self._database.execute("SELECT id, split, reason, audio FROM rejected ORDER BY place")

    def reasons(self) -> list[tuple[str, int]]:
        """Returns why utterances were left out, without details, and how many; the most frequent first."""
        return list(self._database.execute(_REASONS))

    def sentences(self) -> Sentences:
        """Counts the different sentences of what was not left out; call it once, when all is written."""
        self._database.execute("COMMIT")
        self._database.executescript(_SENTENCES)
        counts = dict(self._database.execute("SELECT split, count(*) FROM sentences GROUP BY split"))
        shared: dict[str, dict[str, int]] = {split: {} for split in counts}
        for ours, theirs, count in self._database.execute(_SHARED):
            shared[ours][theirs] = count
        return Sentences(counts, shared)

    def _count(self, query: str, *values) -> int:
        return self._database.execute(query, values).fetchone()[0]


@contextlib.contextmanager
def open_new(path: str) -> Iterator[Spool]:
    """Makes a spool and closes it at the end.

    Raises:
      OSError: the disk has no room for it.
    """
    try:
        with contextlib.closing(Spool(path)) as spooled:
            yield spooled
    except sqlite3.OperationalError as error:
        raise OSError(errno.ENOSPC, str(error), path) from error


def _check_id(name: str) -> None:
    if not name or any(separator in name for separator in "\t\n\r"):
        raise errors.UserError(
            f"--corpus_dir: an utterance id is {name!r}, expected one without tabs and line ends, which part "
            "the tables that name it; rename the utterance."
        )


def _printable(path: str) -> str:
    """Gives a path that may hold bytes which are no UTF-8 as text that can be written."""
    return path.encode("utf-8", "backslashreplace").decode()
