"""What transcribe writes for a recording: a line of TSV or JSON, text, or captions."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from estimator_asr.transcripts import captions, recordings
from tfrecord_builder import errors
from tfrecord_builder.storage import files

FORMATS = ("tsv", "json", "txt", "srt", "vtt")
_OF_ONE = FORMATS[2:]  # have no file name in them


class Transcript(NamedTuple):
    """The segments of a recording; `is_cut` if it was longer than one segment may be."""

    path: str
    segments: Sequence[captions.Segment]
    is_cut: bool = False


def render(transcript: Transcript, format: str) -> str:
    """Returns the whole output for a recording, one of FORMATS."""
    if format in _OF_ONE:
        return {"txt": captions.to_text, "srt": captions.to_srt, "vtt": captions.to_vtt}[format](
            transcript.segments
        )
    result = {"file": transcript.path, **captions.join(transcript.segments)}
    if format == "tsv":
        return "\t".join(result[name] for name in ("file", "transcript", "pinyin")) + "\n"
    if transcript.is_cut:
        result["segments"] = captions.list_segments(transcript.segments)
    return json.dumps(result, ensure_ascii=False) + "\n"


def plan(found: Sequence[recordings.Recording], format: str, output_dir: str) -> list[str]:
    """Returns the output file of each recording, NAME.FORMAT in output_dir.

    Raises:
        errors.UserError: two recordings have the same output file, it exists or is the folder of another, or
            output_dir cannot be made.
    """
    try:
        files.make_directory(output_dir)
    except OSError as error:
        raise errors.UserError(
            f"--output_dir={output_dir}: cannot be made ({error.strerror}), expected a directory; give "
            "another"
        ) from error
    planned = {}
    for recording in found:
        path = os.path.join(output_dir, f"{recording.name}.{format}")
        if path in planned:
            raise errors.UserError(
                f"{path}: is the output of {planned[path]} and of {recording.path}, expected one; "
                + _advise(planned[path], recording.path)
            )
        if files.exists(path):
            raise errors.UserError(f"{path}: exists; move it, or give another --output_dir")
        planned[path] = recording.path
    _refuse_folders(planned)
    return list(planned)


def _refuse_folders(planned: Mapping[str, str]) -> None:
    for path, recording in planned.items():
        for folder in map(str, pathlib.PurePath(path).parents):
            if folder in planned:
                raise errors.UserError(
                    f"{folder}: is the output of {planned[folder]} and the folder of that of {recording}, "
                    "expected one of them; rename the folder"
                )


def _advise(path: str, other: str) -> str:
    if os.path.dirname(path) == os.path.dirname(other):
        return "rename one of them"
    return "rename a recording, or transcribe the folder above both"


def check_standard_output(found: Sequence[recordings.Recording], format: str) -> None:
    """Raises errors.UserError for several recordings in a format that does not name them."""
    if len(found) > 1 and format in _OF_ONE:
        raise errors.UserError(
            f"--format={format}: {len(found)} recordings are given, expected one without --output_dir; "
            "give --output_dir"
        )


def save(path: str, text: str) -> None:
    """Writes an output file, complete or not at all."""
    files.make_directory(os.path.dirname(path))
    # The bytes of a file name that is not UTF-8 are escaped.
    files.write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))
