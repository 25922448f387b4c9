"""Units of work that write a text to a file, for tests of engines."""

import dataclasses

from tfrecord_builder import errors
from tfrecord_builder.building import resumable


@dataclasses.dataclass(frozen=True)
class TextUnit:
    """A unit with one utterance; the writer fails if text is "reject", "refuse", "break" or "overflow"."""

    file: str
    text: str = "one"
    num_items: int = 1


UNITS = [TextUnit(f"{name}.txt", name) for name in ("a", "b", "c")]


@dataclasses.dataclass(frozen=True)
class TextWriter(resumable.UnitWriter):
    """Writes the texts of units."""

    def fingerprint(self, shard: TextUnit) -> str:
        return resumable.hash_json([shard.text])

    def make(self, shard: TextUnit, path: str, on_progress) -> resumable.ShardReceipt:
        if shard.text == "refuse":
            raise errors.UserError("u1: cannot be used; leave it out.")
        if shard.text == "break":
            raise KeyError(shard.file)
        if shard.text == "overflow":
            raise MemoryError
        with open(path, "w", encoding="utf-8") as file:
            file.write(shard.text)
        on_progress(1, 0)
        rejected = [["u", "train", "no transcript", None]] * (shard.text == "reject")
        notes = [f"error: {name}: {reason}" for name, _, reason, _ in rejected]
        return resumable.ShardReceipt(shard.file, 1 - len(rejected), rejected=rejected, notes=notes)
