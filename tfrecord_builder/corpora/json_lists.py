"""Reads NeMo and WeNet lists, whose lines are JSON objects or, for WeNet, paths of tar files."""

from __future__ import annotations

import dataclasses
import os
import re
import tarfile
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, rows, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files, members

# NeMo (see "Preparing custom ASR data" in its manual): {train,dev,test}*.json or .jsonl, for example
# train_manifest.json.
#
#     {"audio_filepath": "wav/a.wav", "duration": 8.5, "text": "今天天气很好"}
#     {"audio_filepath": "wav/b.wav", "duration": 2.4, "offset": 31.5, "text": "你好", "speaker": "s1"}
#
# offset (default: 0) and duration select a segment. channel_selector is a channel number (the first is 0), a
# list of one number, or "average" (default); lines with other values are rejected. pinyin and speaker are
# optional. Manifests contain no ids, so ids are <manifest>-<line>-<recording>, such as train_manifest-2-b.
_NEMO_NAME = re.compile(r"([^_.-]+)([_.-].*)?\.jsonl?")
_TARRED = {"tarred_audio_manifest.json": "train"}  # _read_nemo rejects the shard_id fields in this file
_NEMO_FIELDS = ("audio_filepath", "duration", "offset", "text", "speaker", "pinyin")


def list_nemo(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances from every manifest in the directory."""
    matches = filter(None, map(_NEMO_NAME.fullmatch, files.list_names(corpus_dir)))
    splits = {match[0]: layout.split_of(_TARRED.get(match[0], match[1])) for match in matches}
    if not any(splits.values()):
        raise errors.UserError(
            f"{corpus_dir}: found no NeMo manifest such as train.json, train_manifest.json, dev*.json or "
            "test*.json (or .jsonl); pass the directory that contains the manifests."
        )
    for name, split in splits.items():
        if split:
            yield from _read_nemo(os.path.join(corpus_dir, name), split)


def _read_nemo(path: str, split: str) -> Iterator[manifest.Utterance]:
    for where, fields in json_lines.read_objects(path):
        if "shard_id" in fields:
            raise errors.UserError(
                f"{where}: tarred NeMo datasets are not supported; pass the manifest of the original audio."
            )
        row = rows.read_object(where, _pick(fields, _NEMO_FIELDS), (("audio",),))
        utterance = rows.make_utterance(where, path, row, split)
        channel, problem = _read_channel(fields.get("channel_selector"))
        yield dataclasses.replace(utterance, channel=channel, problem=utterance.problem or problem)


def _read_channel(selector: Any) -> tuple[Optional[int], str]:
    """Returns the selected channel (None for the average of all channels) and the problem, "" if valid."""
    channel = selector[0] if isinstance(selector, list) and len(selector) == 1 else selector
    if channel is None or channel == "average":
        return None, ""
    if isinstance(channel, int) and not isinstance(channel, bool) and channel >= 0:
        return channel, ""
    return None, 'NeMo channel_selector is not a channel number, a list of one number, or "average"'


# WeNet (see its tools/make_raw_list.py and make_shard_list.py): data.list or {train,dev,test}/data.list. A
# raw list contains one object per line; start and end, in seconds, select a segment. A shard list contains
# the path of one tar file per line. KEY.txt in a tar file is the transcript of KEY.wav (.flac, .mp3, ...);
# recordings are read without unpacking the tar file.
#
#     {"key": "BAC009S0724W0121", "wav": "/data/BAC009S0724W0121.wav", "txt": "广州市房地产中介协会分析"}
#     /data/shards/shards_000000000.tar
#
# Paths may be relative to the list's directory or to the directory where the recipe ran (layout.resolve). If
# a list is passed instead of its directory, the split is taken from the file name (default: train).
NOT_UTF_8 = "transcript in a shard is not UTF-8"
_DATA_LIST = "data.list"
_WENET_FIELDS = ("key", "wav", "txt", "speaker", "start", "end")
_AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".wma")


def list_wenet(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances from the lists in a directory, or from a single list."""
    if files.is_directory(corpus_dir):
        lists = layout.find_lists(corpus_dir, (_DATA_LIST,))
    else:
        lists = [(layout.split_in(os.path.basename(corpus_dir)) or "train", corpus_dir)]
    if not lists:
        raise errors.UserError(
            f"{corpus_dir}: found no WeNet list, such as {_DATA_LIST} or train/{_DATA_LIST} (also dev, "
            "valid, test, ...); pass the directory that contains the lists, or the path of one list."
        )
    for split, path in lists:
        first = next(filter(str.strip, text_files.read_lines(path)), "")
        if not first.lstrip().startswith("{"):
            yield from _read_shards(path, split)
            continue
        for where, fields in json_lines.read_objects(path):
            row = rows.read_object(where, _pick(fields, _WENET_FIELDS), (("id",), ("audio",)))
            yield rows.make_utterance(where, path, row, split)


def _read_shards(path: str, split: str) -> Iterator[manifest.Utterance]:
    for line in filter(str.strip, text_files.read_lines(path)):
        shard = layout.resolve(os.path.dirname(path), line.strip())
        try:
            with files.open_binary(shard) as file, tarfile.open(fileobj=file, mode="r:") as archive:
                yield from _read_members(shard, archive, split)
        except FileNotFoundError:
            raise errors.UserError(
                f"{path}: shard {shard} does not exist; fix the path. Each line must be either a JSON object "
                "or the path of a tar file."
            ) from None
        except tarfile.TarError as error:
            raise errors.UserError(
                f"{shard} is not a valid, uncompressed tar file ({error}); create the shard again."
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


def _pick(fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}
