"""Catalog of a build: its utterances, the items of its shards and what was rejected, on disk.

An SQLite database that every build makes for itself, so that its memory does not grow with the corpus.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Optional

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.data import manifest, schema
from tfrecord_builder.labels import normalisation
from tfrecord_builder.settings import config_json, progress_bar
from tfrecord_builder.storage import files

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE utterances (row INTEGER PRIMARY KEY, id TEXT UNIQUE, split TEXT, json TEXT);
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
Row = tuple[str, str, str]  # id, split and JSON of an utterance


class Catalog:
    """The utterances of a build, in an empty database."""

    def __init__(self, database: sqlite3.Connection):
        self._database = database
        database.executescript(_SCHEMA)
        database.execute("BEGIN")  # one transaction: nobody else reads this

    def add_row(self, row: Row) -> None:
        """Adds an utterance; raises UserError if its id is a duplicate."""
        try:
            self._database.execute("INSERT INTO utterances (id, split, json) VALUES (?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise errors.UserError(
                f"--corpus_dir: the utterance id {row[0]} is a duplicate; "
                "give every utterance, in all directories together, an id of its own."
            ) from None

    def utterances(self, split: Optional[str] = None) -> Iterator[manifest.Utterance]:
        """Yields the utterances of the corpus, or those of one split, in the order of the corpus."""
        return map(parse_line, self.lines(split))

    def lines(self, split: Optional[str] = None) -> Iterator[str]:
        """Yields the same as lines for parse_line."""
        query = (
            "SELECT split || char(9) || json FROM utterances WHERE split = coalesce(?, split) ORDER BY row"
        )
        return (line for (line,) in self._database.execute(query, (split,)))

    def count_utterances(self, split: Optional[str] = None) -> int:
        """Returns the number of utterances of the corpus, or of one split."""
        return self._count("SELECT count(*) FROM utterances WHERE split = coalesce(?, split)", split)

    def group(self, split: str, key: Callable[[manifest.Utterance], str]) -> int:
        """Groups the utterances of a split by a key; returns the number of groups."""
        self._database.execute("DELETE FROM groups")
        query = "SELECT row, json FROM utterances WHERE split = ?"
        for row, line in self._database.execute(query, (split,)):
            digest = hashlib.sha256(key(manifest.Utterance(**config_json.parse(line))).encode()).digest()
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

    def _count(self, query: str, *values) -> int:
        return self._database.execute(query, values).fetchone()[0]


@contextlib.contextmanager
def open_new(path: str) -> Iterator[Catalog]:
    """Makes a catalog and closes it at the end; raises OSError if the disk is full."""
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            yield Catalog(database)
    except sqlite3.OperationalError as error:
        raise OSError(errno.ENOSPC, str(error), path) from error


def parse_line(line: str) -> manifest.Utterance:
    """Returns the utterance of a line of Catalog.lines."""
    split, _, described = line.partition("\t")
    return manifest.Utterance(**{**config_json.parse(described), "split": split})


def read_rows(path: str, sha256: str) -> Iterator[Row]:
    """Yields rows, each a line with tabs between its columns; raises UserError if the file is damaged."""
    found = files.sha256(path)
    if found != sha256:
        raise errors.UserError(
            f"{path}: sha256 is {found}, expected {sha256} as it was written; "
            "check the disk or store and run the build again, which lists the corpus again."
        )
    with files.open_binary(path) as file:
        yield from (tuple(line.decode()[:-1].split("\t")) for line in file)


def list_corpus(
    rows: Iterable[Row], corpus_dirs: Sequence[str], corpus: Catalog, dev_fraction: float = 0.0
) -> None:
    """Adds the rows of the directories to the catalog, and makes a dev split if one is asked for.

    Raises UserError if there are none, an utterance id is a duplicate, or as the rows do.
    """
    for row in progress_bar.ProgressBar(rows, unit="utt", desc="listing"):
        corpus.add_row(row)
    where = ", ".join(corpus_dirs)
    if not corpus.count_utterances():
        raise errors.UserError(
            f"--corpus_dir: {where} has no utterances; check --corpus and the files of the corpus."
        )
    if dev_fraction:
        make_dev_split(corpus, dev_fraction)
    if not corpus.count_utterances("dev"):
        logging.warning(
            "%s: the corpus has no dev split to evaluate a training on; "
            "pass --dev_fraction=0.05 to take one from the train split.",
            where,
        )


def make_dev_split(corpus: Catalog, fraction: float) -> None:
    """Moves a fraction of train to dev unless the corpus has a dev split, and logs how many utterances.

    Whole speakers are moved, in the order of the hashes of their names, each that still fits; if none does,
    the smallest one. Utterances of unknown speakers, or of a single one, are moved one by one, and sentences
    of text together with equal ones. So the choice depends on the corpus alone, not on its order.
    """
    if corpus.count_utterances("dev"):
        logging.warning("--dev_fraction=%g: the corpus has a dev split; nothing is moved to it.", fraction)
        return
    num_train, note = corpus.count_utterances("train"), ""
    num_groups = corpus.group("train", _group_key)
    if num_groups == 1 < num_train:
        num_groups = corpus.group("train", lambda utterance: utterance.utterance_id)
        note = "; all are of one speaker, who is now in train and in dev"
    if num_groups > 1:
        corpus.move_groups(_choose(corpus, round(fraction * num_train)), "dev")
        moved = corpus.count_utterances("dev")
        message = "--dev_fraction=%g: %d of %d utterances of train (%.1f %%) are now dev%s."
        logging.warning(message, fraction, moved, num_train, 100 * moved / num_train, note)


def to_row(utterance: manifest.Utterance) -> Row:
    """Returns the row of an utterance; raises UserError if its id is empty or not fit for a table."""
    name = utterance.utterance_id
    if not name or any(separator in name for separator in "\t\n\r"):
        raise errors.UserError(
            f"--corpus_dir: an utterance id is {name!r}, expected one without tabs and line breaks, "
            "which separate the columns and rows of tables; rename the utterance."
        )
    return name, utterance.split, json.dumps(vars(utterance))


def _group_key(utterance: manifest.Utterance) -> str:
    """Returns what must not be divided between train and dev."""
    if utterance.audio is None:
        return normalisation.normalise(utterance.text) or utterance.pinyin
    is_known = utterance.speaker.rpartition("/")[2]  # <directory>/ is a speaker without a name
    return f"speaker {utterance.speaker}" if is_known else f"utterance {utterance.utterance_id}"


def _choose(corpus: Catalog, num_utterances: int) -> Iterator[bytes]:
    remaining, smallest = num_utterances, None
    for digest, size in corpus.group_sizes():
        if size <= remaining:
            remaining -= size
            yield digest
        if smallest is None or size < smallest[0]:
            smallest = size, digest
    if remaining == num_utterances:
        yield smallest[1]
