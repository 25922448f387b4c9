"""Finds the recordings and their texts, in two folders or in a list."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Optional

from estimator_asr.serving.alignment import texts
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.storage import files


def find(
    audio_dir: Optional[str], text_dir: Optional[str], list_file: Optional[str]
) -> tuple[list[recordings.RecordingFile], int]:
    """Returns the recordings with a usable text; prints why other files are skipped, and counts them."""
    if list_file:
        pairs, skipped = [recordings.RecordingFile(*row) for row in texts.read_pairs(list_file)], []
    else:
        pairs, skipped = _find_in_folders(audio_dir, text_dir)
    usable = []
    for pair in pairs:
        try:
            texts.check(pair.text_path)
            usable.append(pair)
        except errors.UserError as error:
            skipped.append(f"error: {error}")
    for line in skipped:
        print(line, file=sys.stderr)
    if not usable:
        where = f"--pairs={list_file}" if list_file else f"--text_dir={text_dir}"
        raise errors.UserError(
            f"{where} has no usable text for any recording; the text of --audio_dir/SUB/NAME.wav must be "
            "--text_dir/SUB/NAME.txt, or on the line of the recording in --pairs"
        )
    return usable, len(skipped)


def _find_in_folders(audio_dir: str, text_dir: str) -> tuple[list[recordings.RecordingFile], list[str]]:
    """Returns the recordings that have a text, and a warning for each file without a counterpart."""
    for name, path in (("audio_dir", audio_dir), ("text_dir", text_dir)):
        if not os.path.isdir(path):
            raise errors.UserError(f"--{name}={path} is not a directory; pass a folder")
    audio_dir, text_dir = map(os.path.realpath, (audio_dir, text_dir))  # resolves `..` after a link correctly
    audio = _index(audio_dir, [recording.path for recording in recordings.find([audio_dir])])
    text_paths = _index(text_dir, files.find_files(text_dir, (".txt",)))
    pairs = [
        recordings.RecordingFile(audio[name], name, text_paths[name]) for name in audio if name in text_paths
    ]
    warnings = [
        f"warning: {path} has no text {name}.txt in --text_dir; it is skipped"
        for name, path in audio.items()
        if name not in text_paths
    ]
    warnings += [
        f"warning: {path} has no recording of this name in --audio_dir; it is skipped"
        for name, path in text_paths.items()
        if name not in audio
    ]
    return pairs, warnings


def _index(directory: str, paths: Sequence[str]) -> dict[str, str]:
    """Maps names (relative paths without extensions) to the paths of files that are not hidden."""
    by_name: dict[str, str] = {}
    for path in paths:
        name = os.path.splitext(os.path.relpath(path, directory))[0]
        other = by_name.setdefault(name, path)
        if other != path:
            raise errors.UserError(
                f"{other} and {path} have the same name apart from the extension, so align cannot tell which "
                "files belong together; rename or remove one of them"
            )
    return {name: path for name, path in by_name.items() if os.path.basename(path)[0] != "."}
