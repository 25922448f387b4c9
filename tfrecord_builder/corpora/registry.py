"""The corpora by name. To add one: a file with list_utterances(corpus_dir) beside this, and its name here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from tfrecord_builder import errors, manifest
from tfrecord_builder.corpora import aishell1, thchs30
from tfrecord_builder.corpora import manifest as manifest_corpus
from tfrecord_builder.corpora import text as text_corpus

CORPORA = {
    "aishell1": aishell1.list_utterances,
    "manifest": manifest_corpus.list_utterances,
    "text": text_corpus.list_utterances,
    "thchs30": thchs30.list_utterances,
}


def list_utterances(corpus: str, corpus_dirs: Sequence[str]) -> list[manifest.Utterance]:
    """Lists the utterances of one or several directories of a corpus.

    Utterance ids stay as they are, so they must differ between the directories. Speakers of several
    directories with recordings become <directory>/<speaker>: two corpora never share one, and scores can be
    told apart by corpus.

    Raises:
      UserError: a directory is missing or not laid out as the corpus is, or two utterances share an id.
    """
    utterances = []
    for corpus_dir in corpus_dirs:
        if not os.path.isdir(corpus_dir):
            raise errors.UserError(
                f"--corpus_dir: there is no directory {corpus_dir}; pass where the corpus lies."
            )
        found = CORPORA[corpus](corpus_dir)
        utterances.extend(_name_speakers(corpus_dir, found) if len(corpus_dirs) > 1 else found)
    manifest.check_unique("--corpus_dir", utterances)
    return utterances


def _name_speakers(corpus_dir: str, utterances: list[manifest.Utterance]) -> list[manifest.Utterance]:
    name = os.path.basename(os.path.abspath(corpus_dir))
    return [
        u if u.audio is None else dataclasses.replace(u, speaker=f"{name}/{u.speaker}") for u in utterances
    ]
