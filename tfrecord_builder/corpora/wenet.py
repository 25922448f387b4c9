"""WeNet's lists: data.list, or {train,dev,test}/data.list, of either of WeNet's two types.

Layout: tools/make_raw_list.py and make_shard_list.py of WeNet. Type raw, one object per line, with segments
also start and end in seconds:

    {"key": "BAC009S0724W0121", "wav": "/data/BAC009S0724W0121.wav", "txt": "广州市房地产中介协会分析"}

Type shard, the path of a tar file per line, in which KEY.wav (or flac, mp3, ...) and KEY.txt belong together:

    /data/shards/shards_000000000.tar

Relative paths are relative to the list or to where the recipe ran (layout.resolve). A list that is passed
itself is the split that its name has, or train. The recordings of a shard are read in place.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, rows, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files, members

NOT_UTF_8 = "transcript in a shard is not UTF-8"

_LIST = "data.list"
_FIELDS = ("key", "wav", "txt", "speaker", "start", "end")
_NEEDED = (("id",), ("audio",))
_AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".wma")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of the lists of a directory, or of a single list."""
    for split, path in _find_lists(corpus_dir):
        first = next(filter(str.strip, text_files.read_lines(path)), "")
        yield from (_read_raw if first.lstrip().startswith("{") else _read_shards)(path, split)


def _find_lists(path: str) -> list[tuple[str, str]]:
    if not files.is_directory(path):
        return [(layout.split_in(os.path.basename(path)) or "train", path)]
    lists = layout.find_lists(path, (_LIST,))
    if not lists:
        raise errors.UserError(
            f"{path}: {_LIST} and train/{_LIST} (or dev, valid, test, ...) are missing, expected WeNet's "
            "lists; pass a directory that holds them, or one list itself."
        )
    return lists


def _read_raw(path: str, split: str) -> Iterator[manifest.Utterance]:
    for where, fields in json_lines.read_objects(path):
        row = rows.read_object(where, {name: fields[name] for name in _FIELDS if name in fields}, _NEEDED)
        yield rows.make_utterance(where, path, row, split)


def _read_shards(path: str, split: str) -> Iterator[manifest.Utterance]:
    for line in filter(str.strip, text_files.read_lines(path)):
        shard = layout.resolve(os.path.dirname(path), line.strip())
        try:
            with files.open_binary(shard) as file, tarfile.open(fileobj=file, mode="r:") as archive:
                yield from _read_members(shard, archive, split)
        except FileNotFoundError:
            raise errors.UserError(
                f"{path}: shard {shard} does not exist, expected the path of a tar file or a JSON object per "
                "line; fix the path."
            ) from None
        except tarfile.TarError as error:
            raise errors.UserError(
                f"{shard}: is not a valid tar file ({error}), expected an uncompressed one; make the shard "
                "again."
            ) from error


def _read_members(shard: str, archive: tarfile.TarFile, split: str) -> Iterator[manifest.Utterance]:
    texts, recordings = {}, {}
    for member in archive:
        key, suffix = os.path.splitext(member.name)
        if suffix == ".txt":
            texts[key] = archive.extractfile(member).read()
        elif suffix.lower() in _AUDIO and member.isfile():
            recordings[key] = str(members.Member(shard, member.offset_data, member.size))
    for key in sorted({*texts, *recordings}):
        audio = recordings.get(key, os.path.join(shard, key))
        text, problem = "", ""
        try:
            text = texts.get(key, b"").decode("utf-8").strip()
        except UnicodeDecodeError:
            problem = NOT_UTF_8
        yield manifest.Utterance(key, audio, "", text, "", split, problem=problem)
