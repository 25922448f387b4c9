"""Reads a Kaldi data directory, or a directory that contains several (train, dev, test, valid and so on).

Layout: kaldi-asr.org/doc/data_prep.html. The lines below are from wav.scp, text, utt2spk (optional) and
segments (also optional). The columns of segments are id, recording, start and end in seconds, and optionally
a channel (the first is 0); an end of -1 means the end of the recording:

    sw02001-A /data/sw02001.wav
    sw02001-A_000098-001156 HI UM YEAH I'D LIKE TO TALK ABOUT ...
    sw02001-A_000098-001156 2001-A
    sw02001-A_000098-001156 sw02001-A 0.98 11.56

A value in wav.scp is an audio file, an offset in an archive (wav.ark:17), or a command that only decodes a
file (see kaldi_commands.py); the file is then read without running the command. Utterances with other values
are rejected. Paths may be relative to the directory of wav.scp or to the directory where the recipe ran (see
layout.resolve). A single data directory counts as train. Kaldi has no standard for annotations in
transcripts, so the whole line is the transcript. A transcript without a recording gets an audio path below
the file wav.scp, where no file can exist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import kaldi_commands, layout, segments, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

# rejected.tsv also shows the entry itself, at the end of the audio path.
NOT_READ = "wav.scp entry is not a file, file:offset or decoding command (cat, flac, sph2pipe, sox, ffmpeg)"

_TO_THE_END = re.compile(r"-1(?:\.0*)?")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of each data directory, those without a recording last."""
    lists = layout.find_lists(corpus_dir, ("wav.scp",))
    if not lists:
        raise errors.UserError(
            f"{corpus_dir}: found no wav.scp here or in train, dev or test (or valid, eval, ...); "
            "pass a Kaldi data directory, which contains wav.scp and text."
        )
    for split, path in lists:
        yield from _list_split(os.path.dirname(path), split)


def _list_split(directory: str, split: str) -> Iterator[manifest.Utterance]:
    transcripts = {key: value for _, key, value in _read_columns(os.path.join(directory, "text"))}
    path = os.path.join(directory, "utt2spk")
    speakers = {key: value for _, key, value in _read_columns(path)} if files.exists(path) else {}
    for key, audio, segment in _read_sources(directory):
        text, speaker = transcripts.pop(key, ""), speakers.get(key, "")
        yield manifest.Utterance(key, audio, speaker, text, "", split, *segment)
    for key, text in transcripts.items():
        audio = os.path.join(directory, "wav.scp", key)
        yield manifest.Utterance(key, audio, speakers.get(key, ""), text, "", split)


def _read_sources(directory: str) -> Iterator[tuple[str, str, segments.Segment]]:
    """Yields (utterance id, audio path, segment of the recording) for each utterance."""
    path = os.path.join(directory, "segments")
    if not files.exists(path):
        yield from _read_recordings(directory)
        return
    recordings = {key: (audio, whole) for key, audio, whole in _read_recordings(directory)}
    for where, key, value in _read_columns(path):
        yield key, *_parse_segment(where, value, recordings)


def _read_recordings(directory: str) -> Iterator[tuple[str, str, segments.Segment]]:
    for _, key, value in _read_columns(os.path.join(directory, "wav.scp")):
        path, channel = value, None
        if value.endswith("|"):
            path, channel = kaldi_commands.find_file(value[:-1]) or ("", None)
        if path:
            yield key, layout.resolve(directory, path), segments.Segment(channel=channel)
        else:
            yield key, os.path.join(directory, "wav.scp", value or key), segments.Segment(problem=NOT_READ)


def _parse_segment(
    where: str, value: str, recordings: dict[str, tuple[str, segments.Segment]]
) -> tuple[str, segments.Segment]:
    recording, *part = value.split() or [""]
    if recording not in recordings or not 2 <= len(part) <= 3:
        raise errors.UserError(
            f"{where}: segment is {value!r}, expected a recording id from wav.scp, start and end in "
            "seconds, and optionally a channel; fix the line."
        )
    row = dict(zip(("start", "end", "channel"), part))
    if _TO_THE_END.fullmatch(row["end"]):
        del row["end"]
    audio, whole = recordings[recording]
    segment = segments.read(where, row)
    channel = whole.channel if segment.channel is None else segment.channel
    return audio, segment._replace(channel=channel, problem=whole.problem or segment.problem)


def _read_columns(path: str) -> Iterator[tuple[str, str, str]]:
    """Yields (where, first column, rest of the line) for each line that is not empty."""
    seen = set()
    for number, line in enumerate(text_files.read_lines(path, "pass a whole Kaldi data directory"), 1):
        parts = line.split(maxsplit=1)
        if not parts:
            continue
        where = f"{path}: line {number}"
        if parts[0] in seen:
            raise errors.UserError(f"{where}: the id {parts[0]} is a duplicate; remove one of the lines.")
        seen.add(parts[0])
        yield where, parts[0], parts[1].strip() if len(parts) > 1 else ""
