"""Reads corpora of WAV files in folders, with one list of transcripts per corpus or per split.

Every reader yields an utterance for each recording, then an utterance for each transcript without a
recording, which the build rejects and counts. openslr.org describes the layouts, which Kaldi's egs/multi_cn
reads too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_ARCHIVE = ".tar.gz"


class _Transcript(NamedTuple):
    text: str = ""
    pinyin: str = ""
    speaker: str = ""


# AISHELL-1 (openslr.org/33): wav/{train,dev,test}/S0002/*.wav, which users must unpack from one archive per
# speaker, and transcript/aishell_transcript_v0.8.txt. A few hundred recordings have no transcript.
#
#     BAC009S0002W0122 而 对 楼市 成交 抑制 作用 最 大 的 限 购
_FIRST_DEV_SPEAKER, _FIRST_TEST_SPEAKER = "S0724", "S0764"


def list_aishell1(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of AISHELL-1, where a speaker's number determines the split."""
    path = os.path.join(corpus_dir, "transcript", "aishell_transcript_v0.8.txt")
    transcripts = _read_transcripts(path, "pass the directory data_aishell")
    wav_dir = os.path.join(corpus_dir, "wav")
    folders = {split: os.path.join(wav_dir, split) for split in manifest.SPLITS}
    _check_unpacked(wav_dir, folders.values())
    if not any(map(files.is_directory, folders.values())):
        raise errors.UserError(
            f"{corpus_dir}: found none of AISHELL-1's folders wav/train, wav/dev and wav/test; unpack the "
            "speakers' archives in wav/ first."
        )

    def find_folder(utterance_id: str) -> tuple[str, str]:
        speaker = utterance_id[len("BAC009") : len("BAC009S0002")]
        if speaker < _FIRST_DEV_SPEAKER:
            return "train", speaker
        return "dev" if speaker < _FIRST_TEST_SPEAKER else "test", speaker

    yield from _pair(folders, transcripts, find_folder)


# aidatatang_200zh (openslr.org/62): corpus/{train,dev,test}/G0013/*.wav, which users must unpack in place
# from one archive per speaker, and transcript/aidatatang_200_zh_transcript.txt:
#
#     T0055G0002S0001 以后 你 是 男孩子


def list_aidatatang_200zh(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of aidatatang_200zh; speakers without a folder belong to train."""
    transcript = os.path.join("transcript", "aidatatang_200_zh_transcript.txt")
    names = {split: os.path.join("corpus", split) for split in manifest.SPLITS}
    remedy = "pass the directory aidatatang_200zh itself"
    layout.require(corpus_dir, (transcript, *names.values()), "aidatatang_200zh", remedy)
    folders = {split: os.path.join(corpus_dir, name) for split, name in names.items()}
    for folder in folders.values():
        _check_unpacked(folder, [folder])

    def find_folder(utterance_id: str) -> tuple[str, str]:
        speaker = utterance_id[len("T0055") : len("T0055G0002")]
        splits = (split for split in folders if files.is_directory(os.path.join(folders[split], speaker)))
        return next(splits, "train"), speaker

    yield from _pair(folders, _read_transcripts(os.path.join(corpus_dir, transcript), remedy), find_folder)


# AISHELL-3 (openslr.org/93): {train,test}/wav/SSB0005/*.wav and {train,test}/content.txt, in which hanzi and
# pinyin alternate after a tab. Tones are written as spoken (一 yi2). Many speakers are in both splits.
#
#     SSB00050001.wav	广 guang3 州 zhou1 女 nv3 大 da4 学 xue2 生 sheng1 ...
#     SSB06930026.wav	九 jiu3 千 qian1 二 er4 点儿 dianr3 一 yi1 七 qi1
_SYLLABLE = re.compile("[a-z]+[1-5]")
_HANZI = re.compile("[\u3007\u3400-\u9fff]儿?")  # a hanzi with er-hua is one token and one syllable


def list_aishell3(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of AISHELL-3, split by split."""
    remedy = "pass the directory into which data_aishell3.tgz was unpacked"
    layout.require(
        corpus_dir, [os.path.join(split, "wav") for split in ("train", "test")], "AISHELL-3", remedy
    )
    for split in ("train", "test"):
        lines = _read_transcripts(os.path.join(corpus_dir, split, "content.txt"), remedy)
        transcripts = {layout.recording_id(name): _split_pairs(line.text) for name, line in lines.items()}
        folders = {split: os.path.join(corpus_dir, split, "wav")}
        yield from _pair(folders, transcripts, lambda name, split=split: (split, name[: len("SSB0005")]))


def _split_pairs(line: str) -> _Transcript:
    """Returns text and pinyin, or only the text if a token has no syllable (for example a Latin letter)."""
    tokens = line.split()
    words, syllables = tokens[::2], tokens[1::2]
    is_paired = len(words) == len(syllables) and all(map(_HANZI.fullmatch, words))
    if is_paired and all(map(_SYLLABLE.fullmatch, syllables)):
        return _Transcript(" ".join(words), " ".join(syllables))
    return _Transcript(" ".join(token for token in tokens if not _SYLLABLE.fullmatch(token)))


# MAGICDATA (openslr.org/68): {train,dev,test}/38_5716/*.wav and {train,dev,test}/TRANS.txt, from one archive
# per split; all splits that are unpacked into the directory are read. Columns are separated by tabs.
#
#     UtteranceID	SpeakerID	Transcription
#     38_5716_20170914202211.wav	38_5716	嗨天气寒冷记得添衣保暖哦
#
# Capitals in brackets, and FIL (a filled pause) and SPK (speaker noise) without brackets, are not words; they
# are replaced with spaces.
_MARKS = re.compile(r"\[ *[A-Z]+ *\]|< *[A-Z]+ *>|(?<![A-Za-z])(?:FIL|SPK)(?![A-Za-z])")
_UNPACK_MAGICDATA = "unpack train_set, dev_set and test_set into one directory and pass that directory"


def list_magicdata(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of MAGICDATA, split by split."""
    folders = {split: os.path.join(corpus_dir, split) for split in manifest.SPLITS}
    folders = {split: folder for split, folder in folders.items() if files.is_directory(folder)}
    if not folders:
        raise errors.UserError(
            f"{corpus_dir}: found none of MAGICDATA's folders train, dev and test; {_UNPACK_MAGICDATA}."
        )
    for split, folder in folders.items():
        yield from _list_magicdata_split(split, folder)


def _list_magicdata_split(split: str, folder: str) -> Iterator[manifest.Utterance]:
    transcripts = {}
    for line in text_files.read_lines(os.path.join(folder, "TRANS.txt"), _UNPACK_MAGICDATA):
        name, speaker, text = (line.split("\t", 2) + ["", ""])[:3]
        if name.endswith(".wav"):
            words = _MARKS.sub(" ", text).split()
            transcripts[layout.recording_id(name)] = _Transcript(" ".join(words), speaker=speaker.strip())
    yield from _pair({split: folder}, transcripts, lambda name: (split, transcripts[name].speaker))


# Primewords Set 1 (openslr.org/47): audio_files/0/00/*.wav, in folders named after the first character and
# the first two characters of the file name, and set1_transcript.json, a single array. For 518 recordings,
# the array contains two entries, of which the first is used. All utterances are in train.
#
#     {"id": "...", "user_id": "...", "file": "00a1ca32-3ad8-4f62-bb16-7346fca03444.wav", "text": "...", ...}


def list_primewords(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of Primewords Set 1."""
    remedy = "pass the directory primewords_md_2018_set1 itself"
    layout.require(corpus_dir, ("set1_transcript.json", "audio_files"), "Primewords Set 1", remedy)
    transcripts: dict[str, _Transcript] = {}
    for where, entry in json_lines.read_objects(os.path.join(corpus_dir, "set1_transcript.json")):
        speaker, text = (json_lines.get_text(where, entry, name, "") for name in ("user_id", "text"))
        name = layout.recording_id(json_lines.get_text(where, entry, "file"))
        transcripts.setdefault(name, _Transcript(text, speaker=speaker))

    def find_folder(utterance_id: str) -> tuple[str, str]:
        return "train", os.path.join(utterance_id[:1], utterance_id[:2])

    folders = {"train": os.path.join(corpus_dir, "audio_files")}
    yield from _pair(folders, transcripts, find_folder, is_folder_speaker=False)


def _pair(
    folders: Mapping[str, str],
    transcripts: Mapping[str, _Transcript],
    find_folder: Callable[[str], tuple[str, str]],
    is_folder_speaker: bool = True,
) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then an utterance for every transcript without a recording.

    `folders` maps each split to the folder that contains its .wav files at any depth; file names are ids.
    `find_folder` maps the id of a missing recording to its split and its folder within the split's folder. If
    is_folder_speaker, folder names are speaker names; the transcript's speaker takes precedence.
    """
    missing = dict(transcripts)

    def make_utterance(split: str, path: str, transcript: _Transcript) -> manifest.Utterance:
        folder = os.path.basename(os.path.dirname(path)) if is_folder_speaker else ""
        speaker = transcript.speaker or folder
        return manifest.Utterance(
            layout.recording_id(path), path, speaker, transcript.text, transcript.pinyin, split
        )

    for split, folder in folders.items():
        for path in layout.find_recordings(folder, ".wav"):
            yield make_utterance(split, path, missing.pop(layout.recording_id(path), _Transcript()))
    for utterance_id, transcript in missing.items():
        split, folder = find_folder(utterance_id)
        yield make_utterance(split, os.path.join(folders[split], folder, f"{utterance_id}.wav"), transcript)


def _read_transcripts(path: str, remedy: str) -> dict[str, _Transcript]:
    """Reads lines of the form `<id> <transcript>`; lines without a transcript are ignored."""
    parts = (line.split(maxsplit=1) for line in text_files.read_lines(path, remedy))
    return {part[0]: _Transcript(part[1].strip()) for part in parts if len(part) == 2}


def _check_unpacked(directory: str, folders: Iterable[str]) -> None:
    """Raises errors.UserError if an archive in a directory was not unpacked into one of the folders."""
    if not files.is_directory(directory):
        return
    unpacked = {name for folder in folders if files.is_directory(folder) for name in files.list_names(folder)}
    names = files.list_names(directory)
    archives = [name for name in names if name.endswith(_ARCHIVE) and not name.startswith(".")]
    packed = [name for name in archives if name.removesuffix(_ARCHIVE) not in unpacked]
    if packed:
        raise errors.UserError(
            f"{directory}: {len(packed)} of {len(archives)} archives are not unpacked, for example "
            f"{packed[0]}; unpack them, or move them elsewhere if you do not need them."
        )
