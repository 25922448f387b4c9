"""The recordings that a command line names, and the files of their transcripts.

Recordings are files, folders, and standard input (-).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.storage import files

STANDARD_INPUT = "-"
_NAMED = ("tsv", "json")  # formats whose lines have the name of their recording
_ANY_RATE = 16000  # of the samples, of which none is read
SUFFIXES = (
    *(".wav", ".flac", ".ogg", ".oga", ".opus", ".spx", ".mp3", ".aiff", ".aif", ".au", ".caf"),
    *(".m4a", ".mp4", ".mov", ".3gp", ".webm", ".mkv", ".mka", ".aac", ".amr", ".wma", ".ts"),
)


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
    by_path = {}
    for word in words:
        stem = "stdin" if word == STANDARD_INPUT else os.path.splitext(os.path.basename(word))[0]
        for recording in _find_in(word) if files.is_directory(word) else [Recording(word, stem)]:
            by_path.setdefault(absolute_path(recording), recording)
    return list(by_path.values())


def absolute_path(recording: Recording) -> str:
    is_local = not files.is_remote(recording.path) and recording.path != STANDARD_INPUT
    return os.path.abspath(recording.path) if is_local else recording.path


def _find_in(folder: str) -> Iterator[Recording]:
    paths = files.find_files(folder, SUFFIXES)
    # macOS puts ._NAME.wav beside NAME.wav on other disks.
    paths = [path for path in paths if not os.path.basename(path).startswith(".")]
    for path in paths:
        yield Recording(path, os.path.splitext(path[len(folder) :].lstrip("/"))[0])
    if not paths:
        raise errors.UserError(
            f"{folder}: has no audio files, expected some whose names end in {', '.join(SUFFIXES)}; "
            "give another folder"
        )


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
        file.close()
        raise audio_files.AudioError("-: standard input is empty, expected audio; write a recording to it")
    file.seek(0)
    return audio_files.AudioBlocks(recording.path, sample_rate, file)


def total_seconds(recordings: Sequence[Recording]) -> Optional[float]:
    """Returns the seconds of all recordings by their headers; None if one of them does not tell.

    What cannot be read counts as nothing, and standard input, which is read once, does not tell.
    """
    seconds = [_read_seconds(recording.path) for recording in recordings]
    return None if None in seconds else sum(seconds)


def _read_seconds(path: str) -> Optional[float]:
    if path == STANDARD_INPUT:
        return None
    try:
        blocks = audio_files.AudioBlocks(path, _ANY_RATE)
    except (errors.UserError, OSError):
        return 0.0
    blocks.close()
    return blocks.seconds


def check_standard_output(recordings: Sequence[Recording], format: str) -> None:
    """Raises errors.UserError for several recordings in a format that does not name them."""
    if len(recordings) > 1 and format not in _NAMED:
        raise errors.UserError(
            f"--format={format}: {len(recordings)} recordings are given, expected one without --output_dir; "
            "give --output_dir"
        )


def make_output_dir(output_dir: str) -> None:
    """Makes the directory; raises errors.UserError if it cannot be made."""
    try:
        files.make_directory(output_dir)
    except OSError as error:
        raise errors.UserError(
            f"--output_dir={output_dir}: cannot be made ({error.strerror}), expected a directory; give "
            "another"
        ) from error


def list_outputs(format: str, output_dir: str) -> set[str]:
    """Returns the files below output_dir that may be outputs."""
    with contextlib.suppress(FileNotFoundError):  # of a store, where an empty directory does not exist
        return set(files.find_files(output_dir, (f".{format}",)))
    return set()


def output_path(recording: Recording, format: str, output_dir: str) -> str:
    return os.path.join(output_dir, f"{recording.name}.{format}")


def plan_outputs(
    recordings: Sequence[Recording],
    format: str,
    output_dir: str,
    replaceable: Collection[tuple[str, str]] = (),
) -> list[str]:
    """Returns the output file of each recording, NAME.FORMAT in output_dir.

    Args:
        replaceable: absolute path and name of each recording whose output file may exist.

    Raises:
        errors.UserError: two recordings have the same output file, or it exists or is the folder of another.
    """
    existing = list_outputs(format, output_dir)
    sources = {}
    for recording in recordings:
        path = output_path(recording, format, output_dir)
        if path in sources:
            is_one_folder = os.path.dirname(sources[path]) == os.path.dirname(recording.path)
            advice = "one of them" if is_one_folder else "a recording, or transcribe the folder above both"
            raise errors.UserError(
                f"{path}: is the output of {sources[path]} and of {recording.path}, expected one; "
                f"rename {advice}"
            )
        if (absolute_path(recording), recording.name) not in replaceable and path in existing:
            raise errors.UserError(f"{path}: exists; move it, or give another --output_dir")
        sources[path] = recording.path
    for path, source in sources.items():
        for folder in map(str, pathlib.PurePath(path).parents):
            if folder in sources:
                raise errors.UserError(
                    f"{folder}: is the output of {sources[folder]} and the folder of that of {source}, "
                    "expected one of them; rename the folder"
                )
    return list(sources)


def save(path: str, text: str) -> None:
    """Writes an output file, complete or not at all."""
    files.make_directory(os.path.dirname(path))
    # The bytes of a file name that is not UTF-8 are escaped.
    files.write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))
