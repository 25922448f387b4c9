"""Status of each item of a batch, the output `status`: ok, a remark, or why its transcript is empty."""

from __future__ import annotations

from tfrecord_builder.audio import frontend

OK = "ok"
MALFORMED = "malformed"
EMPTY = "empty"
SILENT = "silent"
NOT_FINITE = "not_finite"
TOO_LONG = "too_long"
UNFINISHED = "unfinished"  # the only one besides ok with a transcript

# Longest item of an export. Attention over n frames takes n x n numbers per head: three minutes need about a
# gigabyte.
MAX_SECONDS = 180
# Longest stream: its state has room for what is said in that time, for each hypothesis.
STREAM_SECONDS = 60
MAX_CHUNKS = 128  # of a WAV file before its samples; so that none keeps the server busy
LOUDEST_PEAK = 1e12  # full scale is 1; the energy of a much higher one does not fit into float32
LARGEST_FEATURE = 1e14  # logarithms are below 100; the squares of much higher ones do not fit into float32

# What follows the name of a file, and a colon.
SENTENCES = {
    OK: "was transcribed",
    MALFORMED: "is not a WAV file that can be read; convert it to WAV, 16-bit PCM",
    EMPTY: "has no samples, or fewer than one frame; record it again",
    SILENT: "audio is silent, expected a peak of at least 0.0005 of full scale; its transcript is empty",
    NOT_FINITE: f"has NaN or Inf samples, or a peak above {LOUDEST_PEAK:.0e} of full scale; save it again",
    TOO_LONG: "is longer than the model accepts; cut it at pauses",
    UNFINISHED: "was transcribed up to the end of the file, although its header says 0 samples",
}


def find_max_seconds(config: frontend.FrontendConfig) -> int:
    """Returns the seconds of the longest item of an export that reads such features."""
    return min(MAX_SECONDS, config.max_seconds)
