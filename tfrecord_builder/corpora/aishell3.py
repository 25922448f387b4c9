"""AISHELL-3 as it unpacks: {train,test}/content.txt and {train,test}/wav/SSBxxxx/*.wav.

Layout: openslr.org/93. Two lines of content.txt, in which hanzi and pinyin alternate after a tab:

    SSB00050001.wav	广 guang3 州 zhou1 女 nv3 大 da4 学 xue2 生 sheng1 ...
    SSB06930026.wav	九 jiu3 千 qian1 二 er4 点儿 dianr3 一 yi1 七 qi1

Er-hua is one token and one syllable, as in the second line, and is kept. Of a line that is not such pairs (a
Latin letter, a missing token) only the text is read, without the syllables: the builder makes its pinyin.
Tones are as spoken: sandhi is written out (一 yi2).

The corpus has no dev split, and many of its speakers are in both train and test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tfrecord_builder.corpora import layout, text_files
from tfrecord_builder.data import manifest

_SPLITS = ("train", "test")
_REMEDY = "pass the directory into which data_aishell3.tgz was unpacked"
_SYLLABLE = re.compile("[a-z]+[1-5]")
_HANZI = re.compile("[\u3007\u3400-\u9fff]儿?")
_SPEAKER = slice(0, len("SSB0005"))  # of an utterance id


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one, split by split."""
    layout.require(corpus_dir, [os.path.join(split, "wav") for split in _SPLITS], "AISHELL-3", _REMEDY)
    for split in _SPLITS:
        yield from _list_split(os.path.join(corpus_dir, split), split)


def _list_split(directory: str, split: str) -> Iterator[manifest.Utterance]:
    wav_dir = os.path.join(directory, "wav")

    def find_place(utterance_id: str) -> tuple[str, str]:
        return os.path.join(wav_dir, utterance_id[_SPEAKER], f"{utterance_id}.wav"), split

    transcripts = _read_transcripts(os.path.join(directory, "content.txt"))
    yield from layout.pair({split: wav_dir}, transcripts, find_place)


def _read_transcripts(path: str) -> dict[str, layout.Transcript]:
    parts = (line.split(maxsplit=1) for line in text_files.read_lines(path, _REMEDY))
    return {layout.recording_id(part[0]): _split(part[1].split()) for part in parts if len(part) == 2}


def _split(tokens: list[str]) -> layout.Transcript:
    """Splits the tokens of a line into text and pinyin."""
    words, syllables = tokens[::2], tokens[1::2]
    is_paired = len(words) == len(syllables) and all(map(_HANZI.fullmatch, words))
    if is_paired and all(map(_SYLLABLE.fullmatch, syllables)):
        return layout.Transcript(" ".join(words), " ".join(syllables))
    return layout.Transcript(" ".join(token for token in tokens if not _SYLLABLE.fullmatch(token)))
