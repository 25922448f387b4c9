"""aidatatang_200zh, unpacked twice: corpus/{train,dev,test}/Gxxxx/*.wav and one transcript.

Layout: openslr.org/62 and Kaldi's egs/multi_cn. The archive holds one archive per speaker
(corpus/train/G0013.tar.gz), to be unpacked in place. Two lines of the transcript,
transcript/aidatatang_200_zh_transcript.txt:

    T0055G0002S0001 以后 你 是 男孩子
    T0055G0002S0002 兰州 哪有 买路 虎 汽车 的

A transcript without a recording belongs to the split of its speaker's folder, or to train if there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder.corpora import layout
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_TRANSCRIPT = os.path.join("transcript", "aidatatang_200_zh_transcript.txt")
_REMEDY = "pass the directory aidatatang_200zh itself"
_SPEAKER = slice(len("T0055"), len("T0055G0002"))  # of an utterance id


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one."""
    names = [os.path.join("corpus", split) for split in manifest.SPLITS]
    layout.require(corpus_dir, (_TRANSCRIPT, *names), "aidatatang_200zh", _REMEDY)
    folders = {split: os.path.join(corpus_dir, "corpus", split) for split in manifest.SPLITS}
    for folder in folders.values():
        layout.check_unpacked(folder, [folder])

    def find_place(utterance_id: str) -> tuple[str, str]:
        speaker = utterance_id[_SPEAKER]
        known = (split for split in folders if files.is_directory(os.path.join(folders[split], speaker)))
        split = next(known, "train")
        return os.path.join(folders[split], speaker, f"{utterance_id}.wav"), split

    transcripts = layout.read_transcripts(os.path.join(corpus_dir, _TRANSCRIPT), _REMEDY)
    yield from layout.pair(folders, transcripts, find_place)
