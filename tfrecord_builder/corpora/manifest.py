"""Anyone's own recordings: a directory with manifest.tsv (its columns: tfrecord_builder/manifest.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import manifest

MANIFEST_FILE = "manifest.tsv"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of corpus_dir/manifest.tsv."""
    return manifest.read_manifest(os.path.join(corpus_dir, MANIFEST_FILE))
