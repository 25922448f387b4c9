"""Defines the utterance, which every corpus reader in corpora/ yields, and writes manifest.tsv."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable
from typing import Optional

MANIFEST_FILE = "manifest.tsv"
SPLITS = ("train", "dev", "test")
Segment = tuple[float, Optional[float], Optional[int]]  # start and duration in seconds, channel
_NOT_IN_PATHS = re.compile("[\t\n\r\ud800-\udfff]")


@dataclasses.dataclass(frozen=True)
class Utterance:
    """One utterance of a corpus.

    Attributes:
        utterance_id: unique id within a build.
        audio: path of the recording; None in a text-only corpus.
        speaker: name or id of the speaker; empty if unknown.
        text: transcript as the corpus writes it.
        pinyin: pronunciation as tokens separated by spaces; empty if the corpus has none.
        split: "train", "dev" or "test".
        start_seconds: start of the utterance in the recording.
        seconds: duration of the utterance; None to read to the end of the recording.
        channel: number of the channel to read, starting at 0; None for the mean of all channels.
        problem: reason why the corpus reader rejects the utterance; empty if it does not.
        speed: speed factor to apply to the recording, which also changes the pitch.
        volume_db: gain in dB to apply to the recording.
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

    @property
    def segment(self) -> Segment:
        return self.start_seconds, self.seconds, self.channel


def find_path_problem(path: str) -> str:
    """Returns the reason why a manifest cannot contain the path of a recording, or ""."""
    is_bad = _NOT_IN_PATHS.search(path)
    return "path contains a tab, a line break or bytes that are not UTF-8" if is_bad else ""


def make_relative(audio: str, directory: str) -> str:
    """Returns the path of a recording relative to a directory.

    Symbolic links are resolved first, because `..` after a link is the parent of the link's target.
    """
    folder, name = os.path.split(audio)
    return os.path.relpath(os.path.join(os.path.realpath(folder), name), os.path.realpath(directory))


def write_manifest(path: str, utterances: Iterable[Utterance]) -> None:
    """Writes a manifest for --corpus=manifest, with audio paths relative to the manifest's directory."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("id\taudio\tspeaker\ttext\tpinyin\tsplit\tstart\tduration\n")
        for u in utterances:
            audio = make_relative(u.audio, os.path.dirname(path))
            segment = (f"{seconds:.3f}" if seconds else "" for seconds in (u.start_seconds, u.seconds))
            row = (u.utterance_id, audio, u.speaker, u.text, u.pinyin, u.split, *segment)
            file.write("\t".join(row) + "\n")
