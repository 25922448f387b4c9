"""MAGICDATA Mandarin Chinese Read Speech: {train,dev,test}/TRANS.txt and {train,dev,test}/38_5716/*.wav.

Layout: openslr.org/68 and Kaldi's egs/multi_cn. Each split is an archive of its own; those that are unpacked
next to each other are read. The first lines of TRANS.txt, separated by tabs:

    UtteranceID	SpeakerID	Transcription
    38_5716_20170914202211.wav	38_5716	嗨天气寒冷记得添衣保暖哦

Two marks in the transcripts are not words: FIL (a filled pause) and SPK (a noise of the speaker), as [FIL]
and [SPK] or bare. They, and anything else in capitals in brackets of either kind ([NOISE], <NOISE>), become a
space; a transcript of nothing else becomes empty, so the builder rejects it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_TRANSCRIPT = "TRANS.txt"
_REMEDY = "unpack train_set, dev_set and test_set into one directory and pass that"
_MARKS = re.compile(r"\[ *[A-Z]+ *\]|< *[A-Z]+ *>|(?<![A-Za-z])(?:FIL|SPK)(?![A-Za-z])")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one, split by split."""
    splits = [split for split in manifest.SPLITS if files.is_directory(os.path.join(corpus_dir, split))]
    if not splits:
        raise errors.UserError(
            f"{corpus_dir}: train, dev and test are missing, expected those of MAGICDATA; {_REMEDY}."
        )
    for split in splits:
        yield from _list_split(os.path.join(corpus_dir, split), split)


def _list_split(directory: str, split: str) -> Iterator[manifest.Utterance]:
    transcripts = dict(_read_transcripts(os.path.join(directory, _TRANSCRIPT)))

    def find_place(name: str) -> tuple[str, str]:
        return os.path.join(directory, transcripts[name].speaker, f"{name}.wav"), split

    yield from layout.pair({split: directory}, transcripts, find_place)


def _read_transcripts(path: str) -> Iterator[tuple[str, layout.Transcript]]:
    """Yields (id, transcript) of the lines whose first column names a recording."""
    for line in text_files.read_lines(path, _REMEDY):
        name, _, rest = line.partition("\t")
        speaker, _, text = rest.partition("\t")
        if name.endswith(".wav"):
            words = _MARKS.sub(" ", text).split()
            yield layout.recording_id(name), layout.Transcript(" ".join(words), "", speaker.strip())
