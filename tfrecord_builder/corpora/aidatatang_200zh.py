"""aidatatang_200zh, unpacked twice: corpus/{train,dev,test}/Gxxxx/*.wav and one transcript.

Layout: openslr.org/62 and Kaldi's egs/multi_cn. The archive holds an archive a speaker
(corpus/train/G0013.tar.gz), which are unpacked where they lie. Two lines of
transcript/aidatatang_200_zh_transcript.txt:

    T0055G0002S0001 以后 你 是 男孩子
    T0055G0002S0002 兰州 哪有 买路 虎 汽车 的

A transcript without a recording is listed where its speaker's folder is, or in train if there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import files, manifest
from tfrecord_builder.corpora import layout

_TRANSCRIPT = os.path.join("transcript", "aidatatang_200_zh_transcript.txt")
_REMEDY = "pass the directory aidatatang_200zh itself"
_SPEAKER = slice(len("T0055"), len("T0055G0002"))  # of an utterance id


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one."""
    folders = {split: os.path.join(corpus_dir, "corpus", split) for split in manifest.SPLITS}
    names = [os.path.join("corpus", split) for split in manifest.SPLITS]
    layout.require(corpus_dir, (_TRANSCRIPT, *names), "aidatatang_200zh", _REMEDY)
    for folder in folders.values():
        layout.check_unpacked(folder, [folder])
    transcripts = _read_transcripts(os.path.join(corpus_dir, _TRANSCRIPT))
    for split, folder in folders.items():
        for path in layout.find_recordings(folder, ".wav"):
            yield _make_utterance(split, path, transcripts.pop(layout.recording_id(path), ""))
    for utterance_id, transcript in transcripts.items():
        yield _make_missing(folders, utterance_id, transcript)


def _read_transcripts(path: str) -> dict[str, str]:
    parts = (line.split(maxsplit=1) for line in manifest.read_lines(path, _REMEDY))
    return {part[0]: part[1].strip() for part in parts if len(part) == 2}


def _make_utterance(split: str, path: str, transcript: str) -> manifest.Utterance:
    speaker = os.path.basename(os.path.dirname(path))
    return manifest.Utterance(layout.recording_id(path), path, speaker, transcript, "", split)


def _make_missing(folders: dict[str, str], utterance_id: str, transcript: str) -> manifest.Utterance:
    speaker = utterance_id[_SPEAKER]
    found = (split for split in folders if files.is_directory(os.path.join(folders[split], speaker)))
    split = next(found, "train")
    return _make_utterance(split, os.path.join(folders[split], speaker, f"{utterance_id}.wav"), transcript)
