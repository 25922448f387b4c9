"""Lhotse cuts: *cuts*_{train,dev,test}.jsonl.gz or {train,dev,test}.jsonl.gz, also without .gz.

Layout: Lhotse's documentation, "Cuts", and the names that icefall's recipes write; train-clean-100 counts as
train. The fields of a line that are read:

    {"id": "a-0", "type": "MonoCut", "start": 0.5, "duration": 2.5, "channel": 0, "supervisions": [
     {"text": "你好", "speaker": "s1"}], "recording": {"sources": [
     {"type": "file", "channels": [0], "source": "/data/a.wav"}]}}

A relative source counts from the file of cuts (Lhotse's own counts from where a recipe runs). Refused are
cuts of other types, several supervisions in a cut (trim to them first), sources other than files, and
recordings that Lhotse would change as it reads them (speed, volume): take the cuts from before that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import json_lines, layout

_NAME = re.compile(r"(?:.*cuts.*_)?(train|dev|test)(?:-[^_]*)?\.jsonl(?:\.gz)?")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of every file of cuts in the directory."""
    matches = [match for match in map(_NAME.fullmatch, files.list_names(corpus_dir)) if match]
    if not matches:
        raise errors.UserError(
            f"{corpus_dir}: it has no Lhotse cuts, expected cuts_train.jsonl.gz or train.jsonl.gz (and dev, "
            "test); pass the directory that holds them."
        )
    for match in matches:
        for where, cut in json_lines.read_objects(os.path.join(corpus_dir, match[0])):
            yield _make_utterance(where, corpus_dir, cut, match[1])


def _make_utterance(where: str, directory: str, cut: dict[str, Any], split: str) -> manifest.Utterance:
    _check(where, cut.get("type", "MonoCut") == "MonoCut", "the cut is no MonoCut", "one of a single channel")
    supervisions = _objects(where, cut, "supervisions")
    message = f"the cut has {len(supervisions)} supervisions"
    _check(where, len(supervisions) <= 1, message, "one; run cuts.trim_to_supervisions()")
    supervision = supervisions[0] if supervisions else {}
    audio, channel = _find_source(where, cut)
    return manifest.Utterance(
        utterance_id=json_lines.get_text(where, cut, "id"),
        audio=layout.resolve(directory, audio),
        speaker=json_lines.get_text(where, supervision, "speaker", ""),
        text=json_lines.get_text(where, supervision, "text", ""),
        pinyin="",
        split=split,
        start_seconds=json_lines.get_seconds(where, cut, "start") or 0.0,
        seconds=json_lines.get_seconds(where, cut, "duration"),
        channel=channel,
    )


def _find_source(where: str, cut: dict[str, Any]) -> tuple[str, int]:
    """Gives the file that has the cut's channel, and which of the file's channels that is."""
    recording = cut.get("recording")
    _check(where, isinstance(recording, dict), "the cut has no recording", "one with its sources")
    _check(
        where, not recording.get("transforms"), "the recording has transforms", "audio as it lies in files"
    )
    for source in _objects(where, recording, "sources"):
        _check(where, source.get("type") == "file", "a source is no file", "sources of type file alone")
        channels = source.get("channels")
        _check(where, isinstance(channels, list), "a source has no channels", "a list of them")
        if cut.get("channel", 0) in channels:
            return json_lines.get_text(where, source, "source"), channels.index(cut.get("channel", 0))
    raise errors.UserError(
        f"{where}: channel {cut.get('channel', 0)!a} is in no source of the recording, expected it in one; "
        "write the cuts again."
    )


def _objects(where: str, fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = fields.get(name) or []
    is_list = isinstance(found, list) and all(isinstance(each, dict) for each in found)
    _check(where, is_list, f"{name} is no list of objects", "one")
    return found


def _check(where: str, is_right: bool, problem: str, wanted: str) -> None:
    if not is_right:
        raise errors.UserError(f"{where}: {problem}, expected {wanted}; write the cuts again so.")
