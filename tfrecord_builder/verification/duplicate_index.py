"""What was seen where, on disk: as many utterances as there are, in memory that does not grow."""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Optional


class Sightings:
    """Utterance ids and sentences of a data directory, as digests of 8 bytes."""

    def __init__(self):
        self._database = sqlite3.connect("", isolation_level=None)  # a file without a name, gone at the end
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;"
            "CREATE TABLE utterances (digest INTEGER PRIMARY KEY, shard TEXT, number INTEGER);"
            "CREATE TABLE sentences (split TEXT, digest INTEGER, PRIMARY KEY (split, digest)) WITHOUT ROWID;"
        )

    def see_utterance(self, utterance_id: str, shard: str, number: int) -> Optional[tuple[str, int]]:
        """Notes an utterance; gives shard and number of the record that had its id before, or None."""
        digest = _digest(utterance_id)
        added = self._database.execute(
            "INSERT OR IGNORE INTO utterances VALUES (?, ?, ?)", (digest, shard, number)
        )
        if added.rowcount:
            return None
        query = "SELECT shard, number FROM utterances WHERE digest = ?"
        return self._database.execute(query, (digest,)).fetchone()

    def see_sentence(self, split: str, sentence: str) -> None:
        """Notes a sentence of a split."""
        self._database.execute("INSERT OR IGNORE INTO sentences VALUES (?, ?)", (split, _digest(sentence)))

    def num_sentences(self, split: str) -> int:
        """Counts the different sentences of a split."""
        return self._count("SELECT COUNT(*) FROM sentences WHERE split = ?", split)

    def num_shared(self, split: str, other: str) -> int:
        """Counts the sentences that stand in both splits."""
        return self._count(
            "SELECT COUNT(*) FROM sentences a, sentences b "
            "WHERE a.split = ? AND b.split = ? AND a.digest = b.digest",
            split,
            other,
        )

    def _count(self, query: str, *splits: str) -> int:
        return self._database.execute(query, splits).fetchone()[0]


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
