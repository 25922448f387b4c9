"""THCHS-30 as it unpacks: data_thchs30/{data,train,dev,test}.

data/ holds A11_0.wav and A11_0.wav.trn, whose three lines are hanzi, toned pinyin and phones:

    绿 是 阳春 烟 景 ...
    lv4 shi4 yang2 chun1 yan1 jing3 ...
    l v4 sh ix4 ii iang2 ch un1 ...

train/, dev/ and test/ hold A11_0.wav.trn again, with one line that points to it: ../data/A11_0.wav.trn

A transcript of fewer than two lines counts as empty, so the builder rejects it. Some lines of hanzi contain
" l = ", which is not spoken (the pinyin has nothing there): it is removed. Layout: openslr.org/18.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder.corpora import layout, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_SUFFIX = ".wav.trn"
_REMEDY = "pass the directory data_thchs30 itself"
_ARTEFACT = " l = "


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of the three splits; the speaker is the part of the id before the underscore."""
    layout.require(corpus_dir, ("data", *manifest.SPLITS), "THCHS-30", _REMEDY)
    for split in manifest.SPLITS:
        for name in files.list_names(os.path.join(corpus_dir, split)):
            if name.endswith(_SUFFIX) and not name.startswith("."):
                yield _read_utterance(os.path.join(corpus_dir, split, name), split)


def _read_utterance(path: str, split: str) -> manifest.Utterance:
    utterance_id = os.path.basename(path)[: -len(_SUFFIX)]
    lines = _read_lines(path)
    if lines and lines[0].endswith(_SUFFIX):
        path = _follow(path, lines[0])
        lines = _read_lines(path)
    hanzi, pinyin = lines[:2] if len(lines) >= 2 else ("", "")
    hanzi = hanzi.replace(_ARTEFACT, " ")
    audio = path[: -len(".trn")]
    return manifest.Utterance(utterance_id, audio, utterance_id.split("_")[0], hanzi, pinyin, split)


def _follow(path: str, target: str) -> str:
    """Returns where ../data/A11_0.wav.trn points to; without normpath, which breaks s3://."""
    folder = os.path.dirname(path)
    while target.startswith("../"):
        folder, target = os.path.dirname(folder), target[len("../") :]
    return os.path.join(folder, target)


def _read_lines(path: str) -> list[str]:
    return [line.strip() for line in text_files.read_lines(path, "unpack THCHS-30 again")]
