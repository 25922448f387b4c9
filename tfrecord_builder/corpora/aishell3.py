"""AISHELL-3 as it unpacks: {train,test}/content.txt and {train,test}/wav/SSBxxxx/*.wav.

Layout: openslr.org/93. Two lines of content.txt, in which hanzi and pinyin take turns after a tab:

    SSB00050001.wav	广 guang3 州 zhou1 女 nv3 大 da4 学 xue2 生 sheng1 ...
    SSB06930026.wav	九 jiu3 千 qian1 二 er4 点儿 dianr3 一 yi1 七 qi1

Er-hua is one token beside one syllable, as in the second line, and goes through so. A line that is anything
else than such pairs (a Latin letter, a token too few) gives its text without the syllables, and no pinyin:
the builder reads it as it reads corpora that have none. Tones are as spoken: sandhi is written out (一 yi2).

The corpus has no dev split, and many of its speakers are in train and in test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tfrecord_builder import manifest
from tfrecord_builder.corpora import layout
from tfrecord_builder.labels import tokenisation

_SPLITS = ("train", "test")
_REMEDY = "pass the directory into which data_aishell3.tgz was unpacked"
_SYLLABLE = re.compile("[a-z]+[1-5]")
_SPEAKER = slice(0, len("SSB0005"))  # of an utterance id


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one, split by split."""
    layout.require(corpus_dir, [os.path.join(split, "wav") for split in _SPLITS], "AISHELL-3", _REMEDY)
    for split in _SPLITS:
        yield from _list_split(os.path.join(corpus_dir, split), split)


def _list_split(directory: str, split: str) -> Iterator[manifest.Utterance]:
    transcripts = _read_transcripts(os.path.join(directory, "content.txt"))
    for path in layout.find_recordings(os.path.join(directory, "wav"), ".wav"):
        speaker = os.path.basename(os.path.dirname(path))
        utterance_id = layout.recording_id(path)
        transcript, pinyin = transcripts.pop(utterance_id, ("", ""))
        yield manifest.Utterance(utterance_id, path, speaker, transcript, pinyin, split)
    for utterance_id, (transcript, pinyin) in transcripts.items():
        speaker = utterance_id[_SPEAKER]
        path = os.path.join(directory, "wav", speaker, f"{utterance_id}.wav")
        yield manifest.Utterance(utterance_id, path, speaker, transcript, pinyin, split)


def _read_transcripts(path: str) -> dict[str, tuple[str, str]]:
    parts = (line.split(maxsplit=1) for line in manifest.read_lines(path, _REMEDY))
    return {layout.recording_id(part[0]): _part(part[1].split()) for part in parts if len(part) == 2}


def _part(tokens: list[str]) -> tuple[str, str]:
    """Parts the tokens of a line into text and pinyin."""
    words, syllables = tokens[::2], tokens[1::2]
    if len(words) == len(syllables) and all(map(_is_pair, words, syllables)):
        return " ".join(words), " ".join(syllables)
    return " ".join(token for token in tokens if not _SYLLABLE.fullmatch(token)), ""


def _is_pair(word: str, syllable: str) -> bool:
    return (
        tokenisation.is_hanzi(word) and word[1:] in ("", "儿") and _SYLLABLE.fullmatch(syllable) is not None
    )
