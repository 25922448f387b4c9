"""Reads segments of a recording, which is decoded once for all of them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import numpy as np

from tfrecord_builder.audio import audio_files, open_recording


def read(
    path: str, segments: Sequence[tuple], sample_rate: int, max_seconds: float = math.inf
) -> Iterator[np.ndarray | audio_files.AudioError]:
    """Yields the waveform of each segment (start, seconds, channel), or the error of reading it.

    For the arguments, see audio_files.read_audio; raises OSError if the object store failed.
    """
    end = max((start + min(max_seconds, seconds or math.inf) for start, seconds, _ in segments), default=0.0)
    opened = None
    with contextlib.ExitStack() as stack:
        for segment in segments:
            try:
                if opened is None and len(segments) > 1:
                    with audio_files.as_audio_error(path):
                        file = stack.enter_context(audio_files.open_file(path))
                        opened = open_recording.SharedRecording(file, stack, end)
                yield audio_files.read_audio(path, sample_rate, max_seconds, *segment, opened)
            except audio_files.AudioError as error:
                yield error
