"""NeMo manifests: {train,dev,test}*.json or .jsonl, such as train_manifest.json, an object a line.

Layout: NVIDIA NeMo's documentation, "Preparing custom ASR data". Two lines:

    {"audio_filepath": "wav/a.wav", "duration": 8.5, "text": "今天天气很好"}
    {"audio_filepath": "wav/b.wav", "duration": 2.4, "offset": 31.5, "text": "你好", "speaker": "s1"}

duration and offset cut out a segment where there is an offset; without one the recording is taken whole,
because a duration there only says how long the file is, rounded. pinyin and speaker are optional, other
fields are ignored. Relative paths count from the manifest. A manifest has no ids: an utterance is named
<manifest>-<line>-<recording>, such as train_manifest-2-b.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import json_lines, layout

_NAME = re.compile(r"(train|dev|test)([_.-].*)?\.jsonl?")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of every manifest in the directory."""
    matches = [match for match in map(_NAME.fullmatch, files.list_names(corpus_dir)) if match]
    if not matches:
        raise errors.UserError(
            f"{corpus_dir}: it has no NeMo manifest, expected train.json, train_manifest.json or the like "
            "(and dev*, test*), also .jsonl; pass the directory that holds them."
        )
    for match in matches:
        path = os.path.join(corpus_dir, match[0])
        for where, fields in json_lines.read_objects(path):
            yield _make_utterance(where, path, fields, match[1])


def _make_utterance(where: str, path: str, fields: dict[str, Any], split: str) -> manifest.Utterance:
    audio = layout.resolve(os.path.dirname(path), json_lines.get_text(where, fields, "audio_filepath"))
    offset, duration = (json_lines.get_seconds(where, fields, name) for name in ("offset", "duration"))
    return manifest.Utterance(
        utterance_id=f"{layout.recording_id(path)}-{where.split()[-1]}-{layout.recording_id(audio)}",
        audio=audio,
        speaker=json_lines.get_text(where, fields, "speaker", ""),
        text=json_lines.get_text(where, fields, "text", ""),
        pinyin=json_lines.get_text(where, fields, "pinyin", ""),
        split=split,
        start_seconds=offset or 0.0,
        seconds=None if offset is None else duration,
    )
