"""LibriSpeech as it unpacks: LibriSpeech/train-clean-100/103/1240/{*.flac,103-1240.trans.txt}.

Layout: openslr.org/12. Two lines of 103-1240.trans.txt, the transcript of a chapter read by speaker 103:

    103-1240-0000 CHAPTER ONE MISSUS RACHEL LYNDE IS SURPRISED MISSUS RACHEL LYNDE LIVED JUST WHERE ...
    103-1240-0001 THAT HAD ITS SOURCE AWAY BACK IN THE WOODS OF THE OLD CUTHBERT PLACE IT WAS REPUTED ...

Every part that is unpacked is read: train-* as train, dev-* as dev, test-* as test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording and every transcript without one, chapter by chapter."""
    names = [name for name in files.list_names(corpus_dir) if name.split("-")[0] in manifest.SPLITS]
    parts = [name for name in names if files.is_directory(os.path.join(corpus_dir, name))]  # no archives
    if not parts:
        raise errors.UserError(
            f"{corpus_dir}: train-clean-100, dev-clean and the like are missing, expected parts of "
            "LibriSpeech; pass the directory LibriSpeech itself."
        )
    for part in parts:
        for speaker, chapter in _list_chapters(os.path.join(corpus_dir, part)):
            yield from _list_chapter(chapter, speaker, part.split("-")[0])


def _list_chapters(part: str) -> Iterator[tuple[str, str]]:
    for speaker in filter(str.isdecimal, files.list_names(part)):
        for chapter in filter(str.isdecimal, files.list_names(os.path.join(part, speaker))):
            yield speaker, os.path.join(part, speaker, chapter)


def _list_chapter(chapter: str, speaker: str, split: str) -> Iterator[manifest.Utterance]:
    name = f"{speaker}-{os.path.basename(chapter)}.trans.txt"
    lines = text_files.read_lines(os.path.join(chapter, name), "unpack this part of LibriSpeech again")
    parts = (line.partition(" ") for line in lines if line.strip())
    transcripts = {part[0]: part[2].strip() for part in parts}
    recordings = map(layout.recording_id, layout.find_recordings(chapter, ".flac"))
    for utterance_id in sorted({*transcripts, *recordings}):
        audio = os.path.join(chapter, f"{utterance_id}.flac")
        yield manifest.Utterance(utterance_id, audio, speaker, transcripts.get(utterance_id, ""), "", split)
