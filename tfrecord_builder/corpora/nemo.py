"""NeMo manifests: {train,dev,test}*.json or .jsonl, such as train_manifest.json, one object per line.

Layout: NVIDIA NeMo's documentation, "Preparing custom ASR data". Two lines:

    {"audio_filepath": "wav/a.wav", "duration": 8.5, "text": "今天天气很好"}
    {"audio_filepath": "wav/b.wav", "duration": 2.4, "offset": 31.5, "text": "你好", "speaker": "s1"}

offset (0 where it is missing) and duration select a segment. channel_selector is a channel from 0, a list of
one, or "average", the default; other lists are rejected, line by line. pinyin and speaker are optional, other
fields are ignored. A manifest has no ids: an utterance is named <manifest>-<line>-<recording>, such as
train_manifest-2-b. validation_manifest.json is dev.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, rows
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_NAME = re.compile(r"([^_.-]+)([_.-].*)?\.jsonl?")
_NEEDED = (("audio",),)
_FIELDS = ("audio_filepath", "duration", "offset", "text", "speaker", "pinyin")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of every manifest in the directory."""
    matches = filter(None, map(_NAME.fullmatch, files.list_names(corpus_dir)))
    splits = {match[0]: layout.split_of(match[1]) for match in matches}
    if not any(splits.values()):
        raise errors.UserError(
            f"{corpus_dir}: NeMo manifest is missing, expected train.json, train_manifest.json or the like "
            "(and dev*, test*), also .jsonl; pass the directory that holds them."
        )
    for name, split in splits.items():
        if split:
            yield from _read_manifest(os.path.join(corpus_dir, name), split)


def _read_manifest(path: str, split: str) -> Iterator[manifest.Utterance]:
    for where, fields in json_lines.read_objects(path):
        row = rows.read_object(where, {name: fields[name] for name in _FIELDS if name in fields}, _NEEDED)
        channel, problem = _read_channel(fields.get("channel_selector"))
        utterance = rows.make_utterance(where, path, row, split)
        yield dataclasses.replace(utterance, channel=channel, problem=utterance.problem or problem)


def _read_channel(selector: Any) -> tuple[Optional[int], str]:
    """Returns the selected channel, None for the mean of all, and the problem if there is one."""
    only = selector[0] if isinstance(selector, list) and len(selector) == 1 else selector
    if only is None or only == "average":
        return None, ""
    if isinstance(only, int) and not isinstance(only, bool) and only >= 0:
        return only, ""
    return None, 'NeMo channel_selector other than a channel from 0, a list of one or "average"'
