"""THCHS-30 as it unpacks: data_thchs30/{data,train,dev,test}.

data/ holds A11_0.wav and A11_0.wav.trn, whose three lines are hanzi, toned pinyin and phones:

    绿 是 阳春 烟 景 ...
    lv4 shi4 yang2 chun1 yan1 jing3 ...
    l v4 sh ix4 ii iang2 ch un1 ...

train/, dev/ and test/ hold A11_0.wav.trn again, with one line that leads there: ../data/A11_0.wav.trn

A transcript of fewer than two lines counts as empty, so the builder rejects and counts it.
"""

from __future__ import annotations

import os

from tfrecord_builder import errors, manifest

_SUFFIX = ".wav.trn"


def list_utterances(corpus_dir: str) -> list[manifest.Utterance]:
    """Lists the utterances of the three splits; the speaker is the part of the name before the underscore."""
    missing = [
        name for name in ("data", *manifest.SPLITS) if not os.path.isdir(os.path.join(corpus_dir, name))
    ]
    if missing:
        raise errors.UserError(
            f"{corpus_dir}: {', '.join(missing)} is missing, expected data, train, dev and test of "
            "THCHS-30; pass the directory data_thchs30 itself."
        )
    return [utterance for split in manifest.SPLITS for utterance in _list_split(corpus_dir, split)]


def _list_split(corpus_dir: str, split: str) -> list[manifest.Utterance]:
    names = sorted(name for name in os.listdir(os.path.join(corpus_dir, split)) if name.endswith(_SUFFIX))
    return [_read_utterance(os.path.join(corpus_dir, split, name), split) for name in names]


def _read_utterance(path: str, split: str) -> manifest.Utterance:
    utterance_id = os.path.basename(path)[: -len(_SUFFIX)]
    lines = _read_lines(path)
    if lines and lines[0].endswith(_SUFFIX):
        path = os.path.normpath(os.path.join(os.path.dirname(path), lines[0]))
        lines = _read_lines(path)
    hanzi, pinyin = lines[:2] if len(lines) >= 2 else ("", "")
    audio = path[: -len(".trn")]
    return manifest.Utterance(utterance_id, audio, utterance_id.split("_")[0], hanzi, pinyin, split)


def _read_lines(path: str) -> list[str]:
    return [line.strip() for line in manifest.read_lines(path, "unpack THCHS-30 again")]
