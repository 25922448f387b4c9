"""Checks of an utterance. A rejected one is not fatal: the builder counts it and says why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfrecord_builder.audio import audio_files
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling

# Reasons for rejection; those that concern the audio file stand in audio.py.
NO_TRANSCRIPT = "no transcript"
UNKNOWN_SYLLABLE = "pinyin has an unknown syllable"
NOT_PAIRED = "hanzi and pinyin do not pair"
NOT_FINITE = "NaN or Inf samples"
SILENT = "silent audio"
TOO_SHORT = "too short for its labels"
TOO_LONG_FOR_WHISPER = "longer than Whisper's 30 s"
OVERFLOW = "features overflow"


class Rejected(Exception):
    """An utterance cannot be used. str() is one of the reasons above; details follow after ": "."""


def check_labels(
    utterance: manifest.Utterance, labels: labelling.Labels, unknown_syllables: Sequence[str]
) -> None:
    """Raises Rejected for a problem of the corpus's listing, unusable labels, or text without pairs."""
    if utterance.problem:
        raise Rejected(utterance.problem)
    if unknown_syllables:
        raise Rejected(f"{UNKNOWN_SYLLABLE}: {unknown_syllables[0]}")
    if not labels.tokens:
        raise Rejected(NO_TRANSCRIPT)
    if utterance.audio is None and not labels.characters:
        raise Rejected(NOT_PAIRED)


def read_waveform(utterance: manifest.Utterance, sample_rate: int, max_seconds: float) -> np.ndarray:
    """Reads the recording of an utterance, float32 [num_samples] at a sample rate in Hz, and checks it.

    Raises:
        Rejected: the recording is unusable.
        UserError: its disk fails.
    """
    segment = (utterance.start_seconds, utterance.seconds, utterance.channel)
    try:
        waveform = audio_files.read_audio(utterance.audio, sample_rate, max_seconds, *segment)
    except audio_files.AudioError as error:
        if error.reason == audio_files.DISK_FAILED:
            raise
        raise Rejected(error.reason) from None
    peak = max(waveform.max(), -waveform.min())  # either is NaN if a sample is
    if not np.isfinite(peak):
        raise Rejected(NOT_FINITE)
    if peak < audio_files.SILENT_PEAK:
        raise Rejected(SILENT)
    return waveform
