"""Primewords Set 1 as it unpacks: primewords_md_2018_set1/{set1_transcript.json,audio_files/0/00/*.wav}.

Layout: openslr.org/47 and Kaldi's egs/multi_cn. The transcript is one JSON array, whose objects are like

    {"id": "...", "user_id": "...", "file": "00a1ca32-3ad8-4f62-bb16-7346fca03444.wav", "text": "...", ...}
    {"id": "...", "user_id": "...", "file": "0eb1f442-f6b3-4e8c-abd7-e5720b4bdb99.wav", "text": "...", ...}

A recording is below the first letter and the first two letters of its name. 518 recordings are in the
transcript twice: the first entry counts. The corpus has no splits: all of it is train.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

from tfrecord_builder.corpora import json_lines, layout
from tfrecord_builder.data import manifest

_TRANSCRIPT, _AUDIO = "set1_transcript.json", "audio_files"
_REMEDY = "pass the directory primewords_md_2018_set1 itself"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one."""
    layout.require(corpus_dir, (_TRANSCRIPT, _AUDIO), "Primewords Set 1", _REMEDY)
    audio_dir = os.path.join(corpus_dir, _AUDIO)

    def find_place(name: str) -> tuple[str, str]:
        return os.path.join(audio_dir, name[:1], name[:2], f"{name}.wav"), "train"

    transcripts = _read_transcripts(os.path.join(corpus_dir, _TRANSCRIPT))
    for found in layout.pair({"train": audio_dir}, transcripts, find_place):
        speaker = transcripts.get(
            found.utterance_id, layout.Transcript()
        ).speaker  # the folder is not a speaker
        yield dataclasses.replace(found, speaker=speaker)


def _read_transcripts(path: str) -> dict[str, layout.Transcript]:
    transcripts: dict[str, layout.Transcript] = {}
    for where, entry in json_lines.read_objects(path):
        speaker, text = (json_lines.get_text(where, entry, name, "") for name in ("user_id", "text"))
        name = layout.recording_id(json_lines.get_text(where, entry, "file"))
        transcripts.setdefault(name, layout.Transcript(text, speaker=speaker))
    return transcripts
