"""Statuses of utterances, the same as in SavedModels: ok, unfinished, or why a transcript is empty."""

from __future__ import annotations

import numpy as np

OK = "ok"
MALFORMED = "malformed"
EMPTY = "empty"
SILENT = "silent"
NOT_FINITE = "not_finite"
TOO_LONG = "too_long"
UNFINISHED = "unfinished"  # the only status besides ok whose utterance has a transcript

SILENT_PEAK = np.float32(0.0005)  # full scale is 1; audio with a lower peak is silent
LOUDEST_PEAK = np.float32(1e12)  # full scale is 1; the energy of a much higher peak overflows float32

# Messages about a file; each follows the file's name.
SENTENCES = {
    OK: "was transcribed",
    MALFORMED: "is not a readable WAV, FLAC, Ogg, MP3, AIFF, AU or CAF file; convert it to 16-bit PCM WAV",
    EMPTY: "has no samples, or fewer than one frame; make a longer recording",
    SILENT: "is silent (peak below 0.0005 of full scale), so its transcript is empty",
    NOT_FINITE: f"has NaN or Inf samples, or a peak above {LOUDEST_PEAK:.0e} times full scale; save it again",
    TOO_LONG: "is longer than the model accepts; cut the recording at pauses",
    UNFINISHED: "was transcribed up to the end of the file, although its header says 0 samples",
}


def check(waveform: np.ndarray, min_samples: int, max_samples: int) -> str:
    """Returns the status of a waveform, float32 [num_samples], given its minimum and maximum length."""
    if len(waveform) > max_samples:
        return TOO_LONG
    if len(waveform) < max(min_samples, 1):
        return EMPTY
    peak = np.max(np.abs(waveform))  # NaN if any sample is NaN
    if not peak <= LOUDEST_PEAK:
        return NOT_FINITE
    return SILENT if peak < SILENT_PEAK else OK
