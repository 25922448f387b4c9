"""The corpora by name. To add one: a reader in the module here that has its kind, and an entry in CORPORA."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

from tfrecord_builder import errors
from tfrecord_builder.corpora import (
    json_lists,
    kaldi,
    lhotse,
    tables,
    transcript_files,
    transcript_lists,
)
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

# Each lists the utterances of a directory.
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
    "st_cmds": transcript_files.list_st_cmds,
    "table": tables.list_table,
    "text": tables.list_text,
    "thchs30": transcript_files.list_thchs30,
    "wenet": json_lists.list_wenet,
}

_LISTS = ("table", "wenet")  # of these a file can be passed in place of its directory


def list_utterances(
    corpus: str, corpus_dirs: Sequence[str], flag: str = "--corpus_dir"
) -> Iterator[manifest.Utterance]:
    """Yields the utterances of one or several directories of a corpus.

    Utterance ids of recordings are kept, so they must differ between the directories. With several
    directories a speaker becomes <directory>/<speaker>: two corpora never share one, and error rates can be
    reported per corpus. A sentence of text is <directory>-<split>-<line>, its speaker the directory. Paths of
    recordings are absolute. Errors name the flag.

    Raises:
        errors.UserError: a directory is missing, a duplicate, cannot be read or has another layout.
    """
    for corpus_dir, name in zip(corpus_dirs, _name_directories(corpus_dirs, flag)):
        for utterance in _list_directory(corpus, corpus_dir, flag):
            yield _name_utterance(utterance, name, len(corpus_dirs) > 1)


def _list_directory(corpus: str, corpus_dir: str, flag: str) -> Iterator[manifest.Utterance]:
    try:
        if not files.is_directory(corpus_dir) and not (corpus in _LISTS and files.exists(corpus_dir)):
            raise errors.UserError(f"{flag}: {corpus_dir} does not exist; pass the corpus's directory.")
        yield from CORPORA[corpus](corpus_dir)
    except OSError as error:
        if files.is_remote(str(error.filename)):
            raise  # the message of the object store is clearer
        raise errors.UserError(
            f"{flag}: {error.filename} cannot be read ({error.strerror}); change its permissions."
        ) from error


def _name_directories(corpus_dirs: Sequence[str], flag: str) -> list[str]:
    """Names each by its last part, or by as many of its last parts as make all names different."""
    parts = [_to_absolute(corpus_dir).rstrip("/").split("/") for corpus_dir in corpus_dirs]
    for count in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(each[-count:]).lstrip("/") for each in parts]
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
    return path if files.is_remote(path) else os.path.abspath(path)


def _to_printable(name: str) -> str:
    """Returns a name as UTF-8 text on one line; a file name may have other bytes and control characters."""
    if name.isprintable():
        return name
    return files.escape_controls(os.fsencode(name).decode("utf-8", "backslashreplace"))
