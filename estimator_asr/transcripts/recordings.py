"""The recordings that a command line names: files, folders, and standard input (-)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.storage import files

STANDARD_INPUT = "-"
_ANY_RATE = 16000  # of the samples, of which none is read
SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".mp4", ".3gp", ".webm", ".aac", ".amr")


class Recording(NamedTuple):
    """Where a recording is, and its name for output files: its path in the folder that was given.

    `path` is "-" for standard input.
    """

    path: str
    name: str


def find(words: Sequence[str]) -> list[Recording]:
    """Returns files as they are, and the recordings of folders and their subfolders, in a fixed order.

    A file that is given several times, or beside its folder, is one recording: the first of them.

    Raises:
        errors.UserError: a folder has no recordings, or standard input is named twice.
    """
    if words.count(STANDARD_INPUT) > 1:
        raise errors.UserError("transcribe: - is given twice, expected standard input once; remove one")
    found = {}
    for word in words:
        for recording in _find_in(word) if files.is_directory(word) else [Recording(word, _name(word))]:
            found.setdefault(_normalise(recording.path), recording)
    return list(found.values())


def open_blocks(recording: Recording, sample_rate: int) -> audio_files.AudioBlocks:
    """Opens a recording; standard input is copied to a temporary file first, because most formats seek.

    Raises:
        audio.AudioError: as audio.AudioBlocks does.
    """
    if recording.path != STANDARD_INPUT:
        return audio_files.AudioBlocks(recording.path, sample_rate)
    if sys.stdin is None:
        raise audio_files.AudioError("-: standard input is closed, expected audio; give a file or a pipe")
    try:
        file = tempfile.TemporaryFile()
        shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        problem = f"cannot be copied to a temporary file ({error.strerror}), expected room for it; free space"
        raise audio_files.AudioError(f"-: {problem}") from error
    if not file.tell():
        raise audio_files.AudioError("-: standard input is empty, expected audio; write a recording to it")
    file.seek(0)
    return audio_files.AudioBlocks(recording.path, sample_rate, file)


def total_seconds(found: Sequence[Recording]) -> Optional[float]:
    """Returns the seconds of all recordings by their headers; None if one of them does not tell.

    What cannot be read counts as nothing, and standard input, which is read once, does not tell.
    """
    seconds = [_seconds(recording.path) for recording in found]
    return None if None in seconds else sum(seconds)


def _seconds(path: str) -> Optional[float]:
    if path == STANDARD_INPUT:
        return None
    try:
        blocks = audio_files.AudioBlocks(path, _ANY_RATE)
    except (errors.UserError, OSError):
        return 0.0
    blocks.close()
    return blocks.seconds


def _find_in(folder: str) -> Iterator[Recording]:
    paths = [path for path in files.find_files(folder, SUFFIXES) if not _is_hidden(path)]
    for path in paths:
        yield Recording(path, os.path.splitext(path[len(folder) :].lstrip("/"))[0])
    if not paths:
        raise errors.UserError(
            f"{folder}: has no audio files, expected some whose names end in {', '.join(SUFFIXES)}; "
            "give another folder"
        )


def _normalise(path: str) -> str:
    return path if files.is_remote(path) or path == STANDARD_INPUT else os.path.abspath(path)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")  # macOS puts ._NAME.wav beside NAME.wav on other disks


def _name(path: str) -> str:
    return "stdin" if path == STANDARD_INPUT else os.path.splitext(os.path.basename(path))[0]
