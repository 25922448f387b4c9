"""Maps corpus names to readers. To add a corpus, write a reader in the module for its layout, then list the
reader in CORPORA.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

from tfrecord_builder import errors
from tfrecord_builder.corpora import (
    json_lists,
    kaldi,
    lhotse,
    punctuated,
    tables,
    transcript_files,
    transcript_lists,
)
from tfrecord_builder.data import manifest
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

TEXT, PUNCTUATED = WITHOUT_AUDIO = "text", "punctuated"
# Functions that list the utterances in a corpus directory.
CORPORA = {
    "aidatatang_200zh": transcript_lists.list_aidatatang_200zh,
    "aishell1": transcript_lists.list_aishell1,
    "aishell3": transcript_lists.list_aishell3,
    "common_voice": tables.list_common_voice,
    "kaldi": kaldi.list_utterances,
    "lhotse": lhotse.list_utterances,
    "librispeech": transcript_files.list_librispeech,
    "ljspeech": tables.list_ljspeech,
    "magicdata": transcript_lists.list_magicdata,
    "manifest": tables.list_manifest,
    "nemo": json_lists.list_nemo,
    "primewords": transcript_lists.list_primewords,
    PUNCTUATED: punctuated.list_punctuated,
    "st_cmds": transcript_files.list_st_cmds,
    "table": tables.list_table,
    TEXT: tables.list_text,
    "thchs30": transcript_files.list_thchs30,
    "wenet": json_lists.list_wenet,
}

_LISTS = ("table", "wenet")  # layouts for which users can pass a list file instead of a directory


def list_utterances(
    corpus: str, corpus_dirs: Sequence[str], flag: str = "--corpus_dir"
) -> Iterator[manifest.Utterance]:
    """Yields the utterances in one or more directories of a corpus.

    Recordings keep their ids, so ids must be unique across the directories. If there are several directories,
    speakers become <directory>/<speaker>, so that corpora never share speakers and error rates can be
    reported per corpus. A sentence of a corpus without audio gets the id <directory>-<split>-<line> and the
    directory as its speaker. Audio paths are made absolute. Error messages mention `flag`.

    Raises errors.UserError if a directory is missing, passed twice or unreadable, or has a different layout.
    """
    for corpus_dir, name in zip(corpus_dirs, _name_directories(corpus_dirs, flag)):
        for utterance in _list_directory(corpus, corpus_dir, flag):
            yield _name_utterance(utterance, name, len(corpus_dirs) > 1)


def _list_directory(corpus: str, corpus_dir: str, flag: str) -> Iterator[manifest.Utterance]:
    try:
        if not files.is_directory(corpus_dir) and not (corpus in _LISTS and files.exists(corpus_dir)):
            problem = "is not a directory" if files.exists(corpus_dir) else "does not exist"
            raise errors.UserError(f"{flag}: {corpus_dir} {problem}; pass the corpus directory.")
        yield from CORPORA[corpus](corpus_dir)
    except OSError as error:
        if urls.is_remote(str(error.filename)):
            raise  # the object store's own message is clearer
        raise errors.UserError(
            f"{flag}: {error.filename} cannot be read ({error.strerror}); change its permissions."
        ) from error


def _name_directories(corpus_dirs: Sequence[str], flag: str) -> list[str]:
    """Names each directory after the end of its path, with just enough components to tell all apart."""
    paths = [_to_absolute(corpus_dir).rstrip("/").split("/") for corpus_dir in corpus_dirs]
    for count in range(1, max(map(len, paths), default=1) + 1):
        names = ["/".join(components[-count:]).lstrip("/") for components in paths]
        if len(set(names)) == len(names):
            return [_to_printable(name) for name in names]
    raise errors.UserError(f"{flag}: {','.join(corpus_dirs)} contains a duplicate; pass each directory once.")


def _name_utterance(utterance: manifest.Utterance, name: str, is_one_of_several: bool) -> manifest.Utterance:
    if utterance.audio is None:
        return dataclasses.replace(utterance, utterance_id=f"{name}-{utterance.utterance_id}", speaker=name)
    speaker = f"{name}/{utterance.speaker}" if is_one_of_several else utterance.speaker
    return dataclasses.replace(
        utterance,
        utterance_id=_to_printable(utterance.utterance_id),
        speaker=_to_printable(speaker),
        audio=_to_absolute(utterance.audio),
    )


def _to_absolute(path: str) -> str:
    return path if urls.is_remote(path) else os.path.abspath(path)


def _to_printable(name: str) -> str:
    """Returns a name as a single line of UTF-8; other bytes and control characters are escaped."""
    if name.isprintable():
        return name
    return files.escape_controls(os.fsencode(name).decode("utf-8", "backslashreplace"))
