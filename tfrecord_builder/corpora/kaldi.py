"""A Kaldi data directory, or a directory with data directories train, dev and test.

Layout: kaldi-asr.org/doc/data_prep.html. A line each of wav.scp, text, utt2spk and segments (optional: id,
recording, begin and end in seconds, perhaps a channel from 0; an end of -1 is that of the recording):

    sw02001-A /data/sw02001.wav
    sw02001-A_000098-001156 HI UM YEAH I'D LIKE TO TALK ABOUT ...
    sw02001-A_000098-001156 2001-A
    sw02001-A_000098-001156 sw02001-A 0.98 11.56

wav.scp must name audio files: a command (a value that ends in |) is never run, and a place in an archive
(a.ark:17) is no file. A relative path counts from the directory of wav.scp; Kaldi's own count from where a
recipe runs, so have absolute ones. A data directory by itself is train. Kaldi knows no standard for marks in
text: whatever stands there is the transcript. A transcript without a recording is listed as a recording below
wav.scp, where there can be none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Optional

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.corpora import layout

Span = tuple[str, float, Optional[float], Optional[int]]  # audio, start_seconds, seconds, channel

_ARCHIVE_OFFSET = re.compile(r":\d+$")
_SECONDS = r"\d{1,9}(?:\.\d*)?(?:e-\d{1,2})?"
_SEGMENT = re.compile(rf"(\S+)\s+({_SECONDS})\s+(-1(?:\.0*)?|{_SECONDS})(?:\s+(\d{{1,3}}))?")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of each data directory, then its transcripts without a recording."""
    directories = {split: os.path.join(corpus_dir, split) for split in manifest.SPLITS}
    found = {split: path for split, path in directories.items() if _is_data_directory(path)}
    if _is_data_directory(corpus_dir):
        found = {"train": corpus_dir}
    if not found:
        raise errors.UserError(
            f"{corpus_dir}: it has no wav.scp, nor has train, dev or test in it, expected a Kaldi data "
            "directory; pass one that has wav.scp, text and utt2spk."
        )
    for split, path in found.items():
        yield from _list_split(path, split)


def _is_data_directory(path: str) -> bool:
    return files.exists(os.path.join(path, "wav.scp"))


def _list_split(directory: str, split: str) -> Iterator[manifest.Utterance]:
    transcripts = {key: value for _, key, value in _read_columns(os.path.join(directory, "text"))}
    speakers = {key: value for _, key, value in _read_columns(os.path.join(directory, "utt2spk"))}
    for key, (audio, start, seconds, channel) in _read_spans(directory):
        text, speaker = transcripts.pop(key, ""), speakers.get(key, "")
        yield manifest.Utterance(key, audio, speaker, text, "", split, start, seconds, channel)
    for key, text in transcripts.items():
        audio = os.path.join(directory, "wav.scp", key)
        yield manifest.Utterance(key, audio, speakers.get(key, ""), text, "", split)


def _read_spans(directory: str) -> Iterator[tuple[str, Span]]:
    segments = os.path.join(directory, "segments")
    if not files.exists(segments):
        for key, audio in _read_recordings(directory):
            yield key, (audio, 0.0, None, None)
        return
    recordings = dict(_read_recordings(directory))
    for where, key, value in _read_columns(segments):
        yield key, _parse_segment(where, value, recordings)


def _read_recordings(directory: str) -> Iterator[tuple[str, str]]:
    for where, key, value in _read_columns(os.path.join(directory, "wav.scp")):
        if not value or value.endswith("|") or _ARCHIVE_OFFSET.search(value):
            raise errors.UserError(
                f"{where}: {key} is {value or 'nothing'}, expected the path of an audio file; "
                "commands are not run and archives not read here: write the audio to a file and name that."
            )
        yield key, layout.resolve(directory, value)


def _parse_segment(where: str, value: str, recordings: dict[str, str]) -> Span:
    match = _SEGMENT.fullmatch(value)
    start, end = (float(match[2]), float(match[3])) if match else (0.0, 0.0)
    if not match or match[1] not in recordings or not (end == -1 or end > start):
        raise errors.UserError(
            f"{where}: it is {value!a} for a segment, expected a recording of wav.scp, its begin and its "
            "end in seconds and perhaps a channel; mend the line."
        )
    seconds = None if end == -1 else end - start
    return recordings[match[1]], start, seconds, int(match[4]) if match[4] else None


def _read_columns(path: str) -> Iterator[tuple[str, str, str]]:
    """Yields (where, first column, the rest) of the lines that are not empty."""
    seen = set()
    for number, line in enumerate(manifest.read_lines(path, "pass a whole Kaldi data directory"), 1):
        parts = line.split(maxsplit=1)
        if not parts:
            continue
        where = f"{path}: line {number}"
        if parts[0] in seen:
            raise errors.UserError(f"{where}: {parts[0]} is there twice, expected once; remove one line.")
        seen.add(parts[0])
        yield where, parts[0], parts[1].strip() if len(parts) > 1 else ""
