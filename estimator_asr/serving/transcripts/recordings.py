"""Finds the recordings that a command line names, and plans the output files for their transcripts.

A command line can name files, folders and standard input (-).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.data import manifest
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

STANDARD_INPUT = "-"
_NAMED = ("tsv", "json")  # formats that include the path of the recording
_ANY_RATE = 16000  # Hz; has no effect, because only headers are read
SUFFIXES = (
    *(".wav", ".flac", ".ogg", ".oga", ".opus", ".spx", ".mp3", ".aiff", ".aif", ".au", ".caf"),
    *(".m4a", ".mp4", ".mov", ".3gp", ".webm", ".mkv", ".mka", ".aac", ".amr", ".wma", ".ts"),
)


class RecordingFile(NamedTuple):
    """A recording: its path ("-" for standard input), and the name from which its output path is made.

    The name is the path without its extension, relative to the folder on the command line. In align, a
    recording also has the path of its text, or an utterance of a corpus, which is part of the recording.
    """

    path: str
    name: str
    text_path: str = ""
    utterance: Optional[manifest.Utterance] = None


def find(words: Sequence[str]) -> list[RecordingFile]:
    """Returns the named files, and the recordings in named folders and their subfolders, in a fixed order.

    A file that is named twice, or along with its folder, is returned only once, in its first position.
    Raises errors.UserError if a folder contains no recordings, or if standard input is given more than once.
    """
    if words.count(STANDARD_INPUT) > 1:
        raise errors.UserError("transcribe: standard input (-) is given more than once; pass it only once")
    by_path = {}
    for word in words:
        stem = "stdin" if word == STANDARD_INPUT else os.path.splitext(os.path.basename(word))[0]
        for recording in _find_in(word) if files.is_directory(word) else [RecordingFile(word, stem)]:
            by_path.setdefault(absolute_path(recording), recording)
    return list(by_path.values())


def absolute_path(recording: RecordingFile) -> str:
    is_local = not urls.is_remote(recording.path) and recording.path != STANDARD_INPUT
    return os.path.abspath(recording.path) if is_local else recording.path


def _find_in(folder: str) -> Iterator[RecordingFile]:
    paths = files.find_files(folder, SUFFIXES)
    # macOS writes a file ._NAME.wav next to NAME.wav on disks that do not have a macOS file system.
    paths = [path for path in paths if not os.path.basename(path).startswith(".")]
    for path in paths:
        yield RecordingFile(path, os.path.splitext(path[len(folder) :].lstrip("/"))[0])
    if not paths:
        raise errors.UserError(
            f"{folder} contains no audio files (names ending in {', '.join(SUFFIXES)}); choose another folder"
        )


def open_blocks(recording: RecordingFile, sample_rate: int) -> audio_files.AudioBlocks:
    """Opens a recording; standard input is copied to a temporary file, because most decoders need to seek.

    Raises audio_files.AudioError if the recording cannot be opened; see audio_files.AudioBlocks.
    """
    if recording.path != STANDARD_INPUT:
        return audio_files.AudioBlocks(recording.path, sample_rate)
    if sys.stdin is None:
        raise audio_files.AudioError("standard input is closed; pass a file, or pipe audio into the program")
    try:
        file = tempfile.TemporaryFile()
        shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        problem = f"standard input cannot be copied to a temporary file ({error.strerror})"
        raise audio_files.AudioError(f"{problem}; free some disk space") from error
    if not file.tell():
        file.close()
        raise audio_files.AudioError("standard input is empty; pipe a recording into it")
    file.seek(0)
    return audio_files.AudioBlocks(recording.path, sample_rate, file)


def total_seconds(recordings: Sequence[RecordingFile]) -> Optional[float]:
    """Returns the total seconds of audio according to the headers, or None if a header has no length.

    Files that cannot be read count as 0 s. Standard input can be read only once, so its length is unknown.
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


def check_standard_output(recordings: Sequence[RecordingFile], format: str) -> None:
    """Raises errors.UserError if there are several recordings and the output format does not name them."""
    if len(recordings) > 1 and format not in _NAMED:
        raise errors.UserError(
            f"--format={format} can write only one transcript to standard output, but there are "
            f"{len(recordings)} recordings; pass --output_dir"
        )


def make_output_dir(output_dir: str) -> None:
    """Creates the output directory; raises errors.UserError if the directory cannot be created."""
    try:
        files.make_directory(output_dir)
    except OSError as error:
        raise errors.UserError(
            f"--output_dir={output_dir} cannot be created ({error.strerror}); choose another directory"
        ) from error


def list_outputs(format: str, output_dir: str) -> set[str]:
    """Returns the paths of all files under output_dir whose names end in the format's extension."""
    with contextlib.suppress(FileNotFoundError):  # object stores have no empty directories
        return set(files.find_files(output_dir, (f".{format}",)))
    return set()


def output_path(recording: RecordingFile, format: str, output_dir: str) -> str:
    return os.path.join(output_dir, f"{recording.name}.{format}")


def plan_outputs(
    recordings: Sequence[RecordingFile],
    format: str,
    output_dir: str,
    replaceable: Collection[tuple[str, str]] = (),
) -> list[str]:
    """Returns the path of each recording's output file, NAME.FORMAT in output_dir.

    `replaceable` has the (absolute path, name) of each recording whose output file may be overwritten.
    Raises errors.UserError if two recordings would have the same output file, if an output file already
    exists, or if the path of an output file is also the folder of another output file.
    """
    existing = list_outputs(format, output_dir)
    sources = {}
    for recording in recordings:
        path = output_path(recording, format, output_dir)
        if path in sources:
            is_one_folder = os.path.dirname(sources[path]) == os.path.dirname(recording.path)
            advice = "one of them" if is_one_folder else "a recording, or transcribe their common folder"
            raise errors.UserError(
                f"{path} would be the output of both {sources[path]} and {recording.path}; rename {advice}"
            )
        if (absolute_path(recording), recording.name) not in replaceable and path in existing:
            raise errors.UserError(f"{path} already exists; move this file, or choose another --output_dir")
        sources[path] = recording.path
    for path, source in sources.items():
        for folder in map(str, pathlib.PurePath(path).parents):
            if folder in sources:
                raise errors.UserError(
                    f"{folder} would be both the output of {sources[folder]} and the folder for the output "
                    f"of {source}; rename the folder of {source}"
                )
    return list(sources)


def save_table(path: str, columns: Sequence[str], rows: Iterable[Mapping]) -> None:
    """Writes a table with a header line and tabs between the columns, either completely or not at all."""
    lines = [columns, *([str(row[name]) for name in columns] for row in rows)]
    save(path, "".join("\t".join(map(files.escape_controls, line)) + "\n" for line in lines))


def save(path: str, text: str) -> None:
    """Writes an output file, either completely or not at all."""
    files.make_directory(os.path.dirname(path))
    # The text may contain file names that are not UTF-8; the invalid bytes are escaped.
    files.write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))
