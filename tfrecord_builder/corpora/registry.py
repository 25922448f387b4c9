"""The corpora by name. To add one: a file with list_utterances(corpus_dir) here, and an entry in CORPORA."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence

from tfrecord_builder import errors
from tfrecord_builder.corpora import (
    aidatatang_200zh,
    aishell1,
    aishell3,
    common_voice,
    kaldi,
    lhotse,
    librispeech,
    ljspeech,
    magicdata,
    nemo,
    primewords,
    st_cmds,
    table,
    thchs30,
    wenet,
)
from tfrecord_builder.corpora import manifest as manifest_corpus
from tfrecord_builder.corpora import text as text_corpus
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

CORPORA = {
    "aidatatang_200zh": aidatatang_200zh.list_utterances,
    "aishell1": aishell1.list_utterances,
    "aishell3": aishell3.list_utterances,
    "common_voice": common_voice.list_utterances,
    "kaldi": kaldi.list_utterances,
    "lhotse": lhotse.list_utterances,
    "librispeech": librispeech.list_utterances,
    "ljspeech": ljspeech.list_utterances,
    "magicdata": magicdata.list_utterances,
    "manifest": manifest_corpus.list_utterances,
    "nemo": nemo.list_utterances,
    "primewords": primewords.list_utterances,
    "st_cmds": st_cmds.list_utterances,
    "table": table.list_utterances,
    "text": text_corpus.list_utterances,
    "thchs30": thchs30.list_utterances,
    "wenet": wenet.list_utterances,
}

_LISTS = ("table", "wenet")  # of these a file can be passed in place of its directory
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # CSV and JSON can hold them


def list_utterances(corpus: str, corpus_dirs: Sequence[str]) -> Iterator[manifest.Utterance]:
    """Yields the utterances of one or several directories of a corpus.

    Utterance ids of recordings are kept, so they must differ between the directories. With several
    directories a speaker becomes <directory>/<speaker>: two corpora never share one, and error rates can be
    reported per corpus. A sentence of text is <directory>-<split>-<line>, its speaker the directory. Paths of
    recordings are absolute.

    Raises:
        errors.UserError: a directory is missing, given twice, cannot be read or has another layout.
    """
    names = _name_directories(corpus_dirs)
    for corpus_dir, name in zip(corpus_dirs, names):
        for utterance in _list_directory(corpus, corpus_dir):
            yield _name_utterance(utterance, name, len(corpus_dirs) > 1)


def _list_directory(corpus: str, corpus_dir: str) -> Iterator[manifest.Utterance]:
    try:
        if not files.is_directory(corpus_dir) and not (corpus in _LISTS and files.exists(corpus_dir)):
            raise errors.UserError(f"--corpus_dir: {corpus_dir} does not exist; pass the corpus's directory.")
        yield from CORPORA[corpus](corpus_dir)
    except OSError as error:
        if files.is_remote(str(error.filename)):
            raise  # the message of the object store is clearer
        raise errors.UserError(
            f"--corpus_dir: {error.filename} cannot be read ({error.strerror}); change its permissions."
        ) from error


def _name_directories(corpus_dirs: Sequence[str]) -> list[str]:
    """Names each by its last part, or by as many of its last parts as make all names different."""
    parts = [_to_absolute(corpus_dir).rstrip("/").split("/") for corpus_dir in corpus_dirs]
    for count in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return [_to_printable(name) for name in names]
    raise errors.UserError(
        f"--corpus_dir: {','.join(corpus_dirs)} contains a duplicate; pass each directory once."
    )


def _name_utterance(utterance: manifest.Utterance, name: str, is_one_of_several: bool) -> manifest.Utterance:
    if utterance.audio is None:
        return dataclasses.replace(utterance, utterance_id=f"{name}-{utterance.utterance_id}", speaker=name)
    speaker = f"{name}/{utterance.speaker}" if is_one_of_several else utterance.speaker
    names = {
        "utterance_id": _to_printable(utterance.utterance_id),
        "speaker": _to_printable(speaker),
        "audio": _to_absolute(utterance.audio),
    }
    is_named = names.items() <= vars(utterance).items()
    return utterance if is_named else dataclasses.replace(utterance, **names)


def _to_absolute(path: str) -> str:
    return path if files.is_remote(path) else os.path.abspath(path)


def _to_printable(name: str) -> str:
    """Returns a name as UTF-8 text on one line; a file name may have other bytes and control characters."""
    if name.isprintable():
        return name
    decoded = os.fsencode(name).decode("utf-8", "backslashreplace")
    return _CONTROLS.sub(lambda match: ascii(match[0])[1:-1], decoded)
