"""Primewords Set 1 as it unpacks: primewords_md_2018_set1/{set1_transcript.json,audio_files/0/00/*.wav}.

Layout: openslr.org/47 and Kaldi's egs/multi_cn. The transcript is one JSON array, whose objects are like

    {"id": "...", "user_id": "...", "file": "00a1ca32-3ad8-4f62-bb16-7346fca03444.wav", "text": "...", ...}
    {"id": "...", "user_id": "...", "file": "0eb1f442-f6b3-4e8c-abd7-e5720b4bdb99.wav", "text": "...", ...}

A recording lies under the first letter and the first two letters of its name. 518 recordings are in the
transcript twice: the first entry counts. The corpus has no splits: all of it is train.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from tfrecord_builder import errors, manifest
from tfrecord_builder.corpora import json_lines, layout

_TRANSCRIPT, _AUDIO = "set1_transcript.json", "audio_files"
_REMEDY = "pass the directory primewords_md_2018_set1 itself"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one."""
    layout.require(corpus_dir, (_TRANSCRIPT, _AUDIO), "Primewords Set 1", _REMEDY)
    transcripts = _read_transcripts(os.path.join(corpus_dir, _TRANSCRIPT))
    for path in layout.find_recordings(os.path.join(corpus_dir, _AUDIO), ".wav"):
        utterance_id = layout.recording_id(path)
        speaker, transcript = transcripts.pop(utterance_id, ("", ""))
        yield manifest.Utterance(utterance_id, path, speaker, transcript, "", "train")
    for name, (speaker, transcript) in transcripts.items():
        path = os.path.join(corpus_dir, _AUDIO, name[:1], name[:2], f"{name}.wav")
        yield manifest.Utterance(name, path, speaker, transcript, "", "train")


def _read_transcripts(path: str) -> dict[str, tuple[str, str]]:
    """Gives (speaker, text) by utterance id."""
    transcripts: dict[str, tuple[str, str]] = {}
    for number, entry in enumerate(_read_entries(path), 1):
        where = f"{path}: entry {number}"
        speaker, text = (json_lines.get_text(where, entry, name, "") for name in ("user_id", "text"))
        name = layout.recording_id(json_lines.get_text(where, entry, "file"))
        transcripts.setdefault(name, (speaker, text))
    return transcripts


def _read_entries(path: str) -> list[dict[str, Any]]:
    content = "\n".join(manifest.read_lines(path, _REMEDY))
    try:
        entries = json.loads(content)
    except (ValueError, RecursionError):
        entries = None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise errors.UserError(
            f"{path}: it is no JSON array of objects, expected the transcript of Primewords; unpack it again."
        )
    return entries
