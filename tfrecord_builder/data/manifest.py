"""The utterance, which every reader in corpora/ yields, and the writer of manifest.tsv."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Optional

MANIFEST_FILE = "manifest.tsv"
SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class Utterance:
    """One utterance of a corpus.

    Attributes:
        utterance_id: unique within a build.
        audio: path of the recording; None where the corpus is text alone.
        speaker: whatever identifies the speaker; empty if unknown.
        text: transcript as the corpus writes it.
        pinyin: pronunciation, tokens separated by spaces; empty where the corpus has none.
        split: "train", "dev" or "test".
        start_seconds: where the utterance starts in the recording.
        seconds: its duration; None to the end of the recording.
        channel: the channel to read, from 0; None for the mean of all.
        problem: reason to reject the utterance that the corpus itself gives; empty if there is none.
        speed: factor of the recording's speed, which changes the pitch too.
        volume_db: gain to apply to the recording.
    """

    utterance_id: str
    audio: Optional[str]
    speaker: str
    text: str
    pinyin: str
    split: str
    start_seconds: float = 0.0
    seconds: Optional[float] = None
    channel: Optional[int] = None
    problem: str = ""
    speed: float = 1.0
    volume_db: float = 0.0


def write_manifest(path: str, utterances: Iterable[Utterance]) -> None:
    """Writes a manifest for --corpus=manifest; audio paths are written relative to it.

    They begin at its real directory: `..` after a symbolic link is the parent of where the link leads.
    """
    here = os.path.realpath(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("id\taudio\tspeaker\ttext\tpinyin\tsplit\tstart\tduration\n")
        for u in utterances:
            folder, name = os.path.split(u.audio)
            audio = os.path.relpath(os.path.join(os.path.realpath(folder), name), here)
            segment = (f"{seconds:.3f}" if seconds else "" for seconds in (u.start_seconds, u.seconds))
            row = (u.utterance_id, audio, u.speaker, u.text, u.pinyin, u.split, *segment)
            file.write("\t".join(row) + "\n")
