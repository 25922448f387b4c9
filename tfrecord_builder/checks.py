"""What makes an utterance unusable, and the words for it. Nothing here is fatal: the builder counts it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import numpy as np
import soundfile

from tfrecord_builder import audio, errors, frontend
from tfrecord_builder.labels import Labels

NO_TRANSCRIPT = "no transcript"
COUNT_MISMATCH = "hanzi and pinyin differ in number"
MISSING = "no such audio file"
UNREADABLE = "unreadable audio"
EMPTY = "empty audio"
TRUNCATED = "truncated audio"
NOT_FINITE = "NaN or infinite samples"
SILENT = "silent audio"
TOO_LONG = "longer than --max_seconds"
TOO_SHORT = "too short for its labels"

SILENT_PEAK = 0.0005  # of full scale: -66 dB, 16 steps of 16-bit audio


class Rejected(Exception):
    """An utterance cannot be used; str() is the reason in the words above."""


def check_labels(labels: Labels, is_text: bool) -> None:
    """Raises Rejected for an empty transcript, or text whose hanzi and pinyin do not stand one to one."""
    if not labels.tokens:
        raise Rejected(NO_TRANSCRIPT)
    if is_text and not labels.characters:
        raise Rejected(COUNT_MISMATCH)


def read_waveform(path: str, sample_rate: int, max_seconds: float) -> np.ndarray:
    """Reads a recording that is fit for use.

    Args:
      path: audio file.
      sample_rate: in Hz, of the result.
      max_seconds: longest recording that is accepted.

    Returns:
      float32 [num_samples].

    Raises:
      Rejected: the recording is unusable.
    """
    header = _read_header(path)
    if header.frames > max_seconds * header.samplerate:
        raise Rejected(TOO_LONG)
    try:
        waveform = audio.read_audio(path, sample_rate)
    except errors.UserError as error:  # the header is sound: either it promises nothing, or what is not there
        raise Rejected(EMPTY if "has 0 samples" in str(error) else TRUNCATED) from None
    _check_samples(waveform)
    return waveform


def check_length(num_frames: int, tokens: Sequence[str]) -> None:
    """Raises Rejected if CTC cannot fit the tokens into the frames that the model's subsampling leaves.

    Every token takes a frame, and so does the blank between two equal ones.
    """
    repeats = sum(first == second for first, second in zip(tokens, itertools.islice(tokens, 1, None)))
    if frontend.num_subsampled_frames(num_frames) < len(tokens) + repeats:
        raise Rejected(TOO_SHORT)


def _read_header(path: str):
    if not os.path.isfile(path):
        raise Rejected(MISSING)
    if os.path.getsize(path) == 0:
        raise Rejected(EMPTY)
    try:
        return soundfile.info(path)
    except soundfile.SoundFileError:
        raise Rejected(UNREADABLE) from None


def _check_samples(waveform: np.ndarray) -> None:
    peak = np.max(np.abs(waveform), initial=0.0)
    if not np.isfinite(peak):
        raise Rejected(NOT_FINITE)
    if peak < SILENT_PEAK:
        raise Rejected(SILENT)
