"""NeMo manifests: {train,dev,test}*.json or .jsonl, such as train_manifest.json, an object a line.

Layout: NVIDIA NeMo's documentation, "Preparing custom ASR data". Two lines:

    {"audio_filepath": "wav/a.wav", "duration": 8.5, "text": "今天天气很好"}
    {"audio_filepath": "wav/b.wav", "duration": 2.4, "offset": 31.5, "text": "你好", "speaker": "s1"}

offset (0 where it is missing) and duration cut out a segment. channel_selector is a channel from 0, a list
of one, or "average", as without it; other lists are rejected, line by line. pinyin and speaker are optional,
other fields are ignored. Relative paths count from the manifest. A manifest has no ids: an utterance is named
<manifest>-<line>-<recording>, such as train_manifest-2-b. validation_manifest.json is dev.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, Optional

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import json_lines, layout

_NAME = re.compile(r"([^_.-]+)([_.-].*)?\.jsonl?")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of every manifest in the directory."""
    matches = [match for match in map(_NAME.fullmatch, files.list_names(corpus_dir)) if match]
    found = [(match[0], split) for match in matches for split in [layout.split_of(match[1])] if split]
    if not found:
        raise errors.UserError(
            f"{corpus_dir}: it has no NeMo manifest, expected train.json, train_manifest.json or the like "
            "(and dev*, test*), also .jsonl; pass the directory that holds them."
        )
    for name, split in found:
        path = os.path.join(corpus_dir, name)
        for where, fields in json_lines.read_objects(path):
            yield _make_utterance(where, path, fields, split)


def _make_utterance(where: str, path: str, fields: dict[str, Any], split: str) -> manifest.Utterance:
    audio = layout.resolve(os.path.dirname(path), json_lines.get_text(where, fields, "audio_filepath"))
    offset, duration = (json_lines.get_seconds(where, fields, name) for name in ("offset", "duration"))
    channel, problem = _read_channel(fields.get("channel_selector"))
    return manifest.Utterance(
        utterance_id=f"{layout.recording_id(path)}-{where.split()[-1]}-{layout.recording_id(audio)}",
        audio=audio,
        speaker=json_lines.get_text(where, fields, "speaker", ""),
        text=json_lines.get_text(where, fields, "text", ""),
        pinyin=json_lines.get_text(where, fields, "pinyin", ""),
        split=split,
        start_seconds=offset or 0.0,
        seconds=duration,
        channel=channel,
        problem=problem,
    )


def _read_channel(selector: Any) -> tuple[Optional[int], str]:
    """Returns the channel that is selected, None for the mean of all, and why it cannot be."""
    only = selector[0] if isinstance(selector, list) and len(selector) == 1 else selector
    if only is None or only == "average":
        return None, ""
    if isinstance(only, int) and not isinstance(only, bool) and only >= 0:
        return only, ""
    return None, 'NeMo channel_selector that is none of a channel from 0, a list of one and "average"'
