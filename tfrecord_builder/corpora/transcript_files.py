"""Reads corpora with a transcript file per recording or chapter: THCHS-30, ST-CMDS and LibriSpeech."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

# THCHS-30 (openslr.org/18): data/ contains files such as A11_0.wav and A11_0.wav.trn, whose three lines are
# hanzi, toned pinyin and phones. train/, dev/ and test/ contain .trn files with one line, a path in data/.
#
#     绿 是 阳春 烟 景 ...                       ../data/A11_0.wav.trn
#     lv4 shi4 yang2 chun1 yan1 jing3 ...
#     l v4 sh ix4 ii iang2 ch un1 ...
_TRN = ".wav.trn"
_ARTEFACT = " l = "  # stray text that is not spoken, in some lines of hanzi


def list_thchs30(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of THCHS-30; the speaker is the part of the id before the underscore."""
    remedy = "pass the directory data_thchs30 itself"
    layout.require(corpus_dir, ("data", *manifest.SPLITS), "THCHS-30", remedy)
    for split in manifest.SPLITS:
        for name in files.list_names(os.path.join(corpus_dir, split)):
            if name.endswith(_TRN) and not name.startswith("."):
                path, hanzi, pinyin = _read_trn(os.path.join(corpus_dir, split, name))
                utterance_id = name.removesuffix(_TRN)
                speaker = utterance_id.split("_")[0]
                audio = path.removesuffix(".trn")
                yield manifest.Utterance(utterance_id, audio, speaker, hanzi, pinyin, split)


def _read_trn(path: str) -> tuple[str, str, str]:
    """Returns (path, hanzi, pinyin) for a transcript file, or for the file that it points to."""
    lines = [line.strip() for line in text_files.read_lines(path, "unpack THCHS-30 again")]
    if lines and lines[0].endswith(_TRN):
        folder, target = os.path.dirname(path), lines[0]
        while target.startswith("../"):  # os.path.normpath would break s3:// paths
            folder, target = os.path.dirname(folder), target.removeprefix("../")
        path = os.path.join(folder, target)
        lines = [line.strip() for line in text_files.read_lines(path, "unpack THCHS-30 again")]
    hanzi, pinyin = lines[:2] if len(lines) >= 2 else ("", "")
    return path, hanzi.replace(_ARTEFACT, " "), pinyin


# ST-CMDS (openslr.org/38): 20170001P00001A0001.{wav,txt,metadata}, all in one directory. There are no splits,
# so all utterances are in train. A .txt file contains one line, the transcript. A speaker's name (here
# P00001A) includes the letter. This yields 855 speakers with 120 sentences each, as openslr.org states.
_ST_CMDS_NAME = re.compile(r"\d{8}(P\d{5}[A-Z])\d{4}")


def list_st_cmds(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording in ST-CMDS and for every transcript without a recording."""
    is_empty = True
    for utterance_id, names in itertools.groupby(files.list_names(corpus_dir), layout.recording_id):
        match = _ST_CMDS_NAME.fullmatch(utterance_id)
        suffixes = {os.path.splitext(name)[1] for name in names}
        if match and suffixes & {".wav", ".txt"}:
            is_empty = False
            stem = os.path.join(corpus_dir, utterance_id)
            lines = text_files.read_lines(f"{stem}.txt", "unpack ST-CMDS again") if ".txt" in suffixes else ()
            text = " ".join(lines).strip()
            yield manifest.Utterance(utterance_id, f"{stem}.wav", match[1], text, "", "train")
    if is_empty:
        raise errors.UserError(
            f"{corpus_dir}: found no ST-CMDS recordings such as 20170001P00001A0001.wav; "
            "pass the directory ST-CMDS-20170001_1-OS itself."
        )


# LibriSpeech (openslr.org/12): train-clean-100/103/1240/{*.flac,103-1240.trans.txt}. All unpacked parts are
# read: train-* as train, dev-* as dev, test-* as test. A line from chapter 1240, read by speaker 103:
#
#     103-1240-0000 CHAPTER ONE MISSUS RACHEL LYNDE IS SURPRISED MISSUS RACHEL LYNDE LIVED JUST WHERE ...


def list_librispeech(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for each recording and each transcript without a recording, chapter by chapter."""
    names = [name for name in files.list_names(corpus_dir) if name.split("-")[0] in manifest.SPLITS]
    parts = [name for name in names if files.is_directory(os.path.join(corpus_dir, name))]  # skips archives
    if not parts:
        raise errors.UserError(
            f"{corpus_dir}: found no LibriSpeech parts such as train-clean-100; pass the directory "
            "LibriSpeech itself."
        )
    for part in parts:
        for speaker in filter(str.isdecimal, files.list_names(os.path.join(corpus_dir, part))):
            for chapter in filter(str.isdecimal, files.list_names(os.path.join(corpus_dir, part, speaker))):
                folder = os.path.join(corpus_dir, part, speaker, chapter)
                yield from _list_chapter(folder, f"{speaker}-{chapter}", speaker, part.split("-")[0])


def _list_chapter(folder: str, name: str, speaker: str, split: str) -> Iterator[manifest.Utterance]:
    path = os.path.join(folder, f"{name}.trans.txt")
    lines = filter(str.strip, text_files.read_lines(path, "unpack this part of LibriSpeech again"))
    texts = {utterance_id: text.strip() for utterance_id, _, text in (line.partition(" ") for line in lines)}
    recordings = map(layout.recording_id, layout.find_recordings(folder, ".flac"))
    for utterance_id in sorted({*texts, *recordings}):
        audio = os.path.join(folder, f"{utterance_id}.flac")
        yield manifest.Utterance(utterance_id, audio, speaker, texts.get(utterance_id, ""), "", split)
