"""What makes an utterance unusable, and the words for it. Nothing here is fatal: the builder counts it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tfrecord_builder import audio, frontend, manifest
from tfrecord_builder.building import half_floats
from tfrecord_builder.labels import labelling

# What is wrong with a file as such stands in audio.
NO_TRANSCRIPT = "no transcript"
UNKNOWN_SYLLABLE = "pinyin has an unknown syllable"
NOT_PAIRED = "hanzi and pinyin do not pair"
NOT_FINITE = "NaN or infinite samples"
SILENT = "silent audio"
TOO_SHORT = "too short for its labels"
TOO_LOUD = "too loud for finite features"


class Rejected(Exception):
    """An utterance cannot be used.

    str() is the reason in the words above, or in those of audio; details of this utterance follow ": ".
    """


def check_listed(utterance: manifest.Utterance) -> None:
    """Raises Rejected for an utterance that its corpus describes in a way that cannot be honoured."""
    if utterance.problem:
        raise Rejected(utterance.problem)


def check_pinyin(unknown: Sequence[str]) -> None:
    """Raises Rejected, with the first of them, for tokens of pinyin that should be syllables and are not."""
    if unknown:
        raise Rejected(f"{UNKNOWN_SYLLABLE}: {unknown[0]}")


def check_labels(found: labelling.Labels, is_text: bool) -> None:
    """Raises Rejected for an empty transcript, or text whose hanzi and pinyin do not stand one to one."""
    if not found.tokens:
        raise Rejected(NO_TRANSCRIPT)
    if is_text and not found.characters:
        raise Rejected(NOT_PAIRED)


def read_waveform(utterance: manifest.Utterance, sample_rate: int, max_seconds: float) -> np.ndarray:
    """Reads the sound of an utterance that is fit for use.

    Args:
      utterance: its recording, and the part and channel of that.
      sample_rate: in Hz, of the result.
      max_seconds: longest recording that is accepted.

    Returns:
      float32 [num_samples].

    Raises:
      Rejected: the recording is unusable.
      UserError: its disk fails.
    """
    part = (utterance.start_seconds, utterance.seconds, utterance.channel)
    try:
        waveform = audio.read_audio(utterance.audio, sample_rate, max_seconds, *part)
    except audio.AudioError as error:
        if error.reason == audio.DISK_FAILED:
            raise
        raise Rejected(error.reason) from None
    _check_samples(waveform)
    return waveform


def check_length(num_frames: int, tokens: Sequence[str]) -> None:
    """Raises Rejected if CTC cannot fit the tokens into the frames that the model's subsampling leaves.

    Every token takes a frame, and so does the blank between two equal ones.
    """
    repeats = sum(first == second for first, second in zip(tokens, itertools.islice(tokens, 1, None)))
    if frontend.num_subsampled_frames(num_frames) < len(tokens) + repeats:
        raise Rejected(TOO_SHORT)


def check_features(fbank: np.ndarray) -> None:
    """Raises Rejected for features, float [num_frames, num_bins], that are NaN or infinite.

    Samples can be finite and their power not; a single such frame would spoil mean and deviation of all.
    """
    if not half_floats.are_finite(fbank):
        raise Rejected(TOO_LOUD)


def _check_samples(waveform: np.ndarray) -> None:
    peak = max(waveform.max(), -waveform.min())  # either is NaN if a sample is
    if not np.isfinite(peak):
        raise Rejected(NOT_FINITE)
    if peak < audio.SILENT_PEAK:
        raise Rejected(SILENT)
