"""Lists a corpus: here, or a directory per unit on the workers of an engine."""

from __future__ import annotations

import dataclasses
import logging as standard_logging
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.building import catalog, resumable
from tfrecord_builder.corpora import registry


@dataclasses.dataclass(frozen=True)
class CorpusDirectory:
    """One of --corpus_dir: the file of its list, and its position in the flag."""

    file: str
    position: int
    num_items: int = 0  # not known before it is listed


@dataclasses.dataclass
class Listed(resumable.Written):
    """The receipt of a list: also the warnings of the reader, and the error that ended it, or empty."""

    warnings: list = dataclasses.field(default_factory=list)
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Lister(resumable.ShardWriter):
    """Lists directories of a corpus, into files for catalog.read_rows."""

    layout: str
    corpus_dirs: tuple[str, ...]
    run: str  # another run lists again: the corpus may have changed

    written_type = Listed

    def fingerprint(self, corpus: CorpusDirectory) -> str:
        return self.run

    def make(self, corpus: CorpusDirectory, path: str, on_progress: resumable.OnProgress) -> Listed:
        listed = Listed(corpus.file)
        utterances = registry.list_utterances(self.layout, self.corpus_dirs, corpus.position)
        rows = _note_problems(map(catalog.to_row, utterances), listed)
        with open(path, "wb") as output:
            for listed.num_records, row in enumerate(rows, 1):
                output.write("\t".join(row).encode() + b"\n")
        return listed


def list_on_engine(
    layout: str, corpus_dirs: Sequence[str], directory: str, run: Callable[..., list[Listed]]
) -> Iterator[catalog.Row]:
    """Returns the rows of the catalog, which workers list into files of a directory that all see.

    Raises UserError with the error of the reader, or if a list is damaged.
    """
    corpora = [CorpusDirectory(f"{i:05d}.rows", i) for i in range(len(corpus_dirs))]
    lister = Lister(directory, layout, tuple(corpus_dirs), uuid.uuid4().hex)
    return (row for listed in run(corpora, lister, "listing") for row in _read(directory, listed))


def _read(directory: str, listed: Listed) -> Iterator[catalog.Row]:
    for warning in listed.warnings:
        logging.warning("%s", warning)
    yield from catalog.read_rows(os.path.join(directory, listed.file), listed.sha256)
    if listed.error:
        raise errors.UserError(listed.error)


def _note_problems(rows: Iterator[catalog.Row], listed: Listed) -> Iterator[catalog.Row]:
    """Yields rows; notes warnings and an error of the reader for the launcher, which tells the user."""
    logger, thread = standard_logging.getLogger("absl"), threading.get_ident()

    def note(record: standard_logging.LogRecord) -> bool:
        if record.thread == thread:
            listed.warnings.append(record.getMessage())
        return record.thread != thread

    logger.addFilter(note)
    try:
        yield from rows
    except (errors.UserError, OSError) as error:  # OSError: of an object store
        listed.error = errors.describe_refusal(error) or str(error)
    finally:
        logger.removeFilter(note)
