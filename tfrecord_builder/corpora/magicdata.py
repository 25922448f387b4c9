"""MAGICDATA Mandarin Chinese Read Speech: {train,dev,test}/TRANS.txt and {train,dev,test}/38_5716/*.wav.

Layout: openslr.org/68 and Kaldi's egs/multi_cn. Each split is an archive of its own; those that are unpacked
beside each other are read. The first lines of TRANS.txt, parted by tabs:

    UtteranceID	SpeakerID	Transcription
    38_5716_20170914202211.wav	38_5716	嗨天气寒冷记得添衣保暖哦

Two marks in the transcripts are no speech that a transcript spells: FIL (a filled pause) and SPK (a noise of
the speaker), as [FIL] and [SPK] or bare. They, and anything else in capitals between brackets of either kind
([NOISE], <NOISE>), become a blank; a transcript of nothing else becomes empty, so the builder rejects it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import layout

_TRANSCRIPT = "TRANS.txt"
_REMEDY = "unpack train_set, dev_set and test_set into one directory and pass that"
_MARKS = re.compile(r"\[ *[A-Z]+ *\]|< *[A-Z]+ *>|(?<![A-Za-z])(?:FIL|SPK)(?![A-Za-z])")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one, split by split."""
    splits = [split for split in manifest.SPLITS if files.is_directory(os.path.join(corpus_dir, split))]
    if not splits:
        raise errors.UserError(
            f"{corpus_dir}: it has no directory train, dev or test, expected those of MAGICDATA; {_REMEDY}."
        )
    for split in splits:
        yield from _list_split(os.path.join(corpus_dir, split), split)


def _list_split(directory: str, split: str) -> Iterator[manifest.Utterance]:
    transcripts = dict(_read_transcripts(os.path.join(directory, _TRANSCRIPT)))
    for path in layout.find_recordings(directory, ".wav"):
        speaker = os.path.basename(os.path.dirname(path))
        _, text = transcripts.pop(os.path.basename(path), ("", ""))
        yield manifest.Utterance(layout.recording_id(path), path, speaker, text, "", split)
    for name, (speaker, text) in transcripts.items():
        path = os.path.join(directory, speaker, name)
        yield manifest.Utterance(layout.recording_id(name), path, speaker, text, "", split)


def _read_transcripts(path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yields (file name, (speaker, text)); lines of which no column names a recording are no transcripts."""
    for line in manifest.read_lines(path, _REMEDY):
        name, _, rest = line.partition("\t")
        speaker, _, text = rest.partition("\t")
        if name.endswith(".wav"):
            yield name, (speaker.strip(), " ".join(_MARKS.sub(" ", text).split()))
