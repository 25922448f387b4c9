"""Values of an item's output `status`: ok, unfinished, or the reason why its transcript is empty."""

from __future__ import annotations

from tfrecord_builder.audio import frontend

OK = "ok"
MALFORMED = "malformed"
EMPTY = "empty"
SILENT = "silent"
NOT_FINITE = "not_finite"
TOO_LONG = "too_long"
TOO_MANY_TOKENS = "too_many_tokens"  # returned only by the signature `align`
UNFINISHED = "unfinished"  # the only status besides ok whose item has a transcript

# Maximum length of an item. Attention over n frames needs n x n numbers per head, which take up about a
# gigabyte for three minutes.
MAX_SECONDS = 180
# Maximum length of a stream, whose state has a fixed size and must hold the tokens of each hypothesis.
STREAM_SECONDS = 60
MAX_CHUNKS = 128  # maximum number of chunks read from a WAV file, so that no file can keep the server busy
LOUDEST_PEAK = 1e12  # full scale is 1; the energy of a much higher peak overflows float32
LARGEST_FEATURE = 1e14  # log features are below 100; squares of values far above this limit overflow float32

# This text follows "the message" in the server's errors and precedes the advice.
NOT_FINITE_PROBLEM = f"has NaN or Inf samples, or a peak above {LOUDEST_PEAK:.0e} times full scale"


def find_max_seconds(config: frontend.FrontendConfig) -> int:
    """Returns the maximum length of an item, in seconds, for a model with this frontend."""
    return min(MAX_SECONDS, config.max_seconds)
