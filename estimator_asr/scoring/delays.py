"""Emission delay: the time from the end of a syllable until its token in the transcript no longer changes.

The end of a syllable is the end of its token's frames when the same model recognises the whole recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

OUTPUT = "emission_delays"  # key of an utterance's output that holds a list of delays in seconds
PERCENTILES = (50, 90, 99)


def measure(
    partials: Sequence[Sequence[str]], times: Sequence[float], syllables: Sequence[Mapping]
) -> list[float]:
    """Returns the delay in seconds of each token that is in both the final transcript and `syllables`.

    Args:
        partials: tokens of the transcript after each piece of a recording; the last transcript is final.
        times: time at which each piece ends, in seconds from the start of the recording.
        syllables: syllables that the model finds in the whole recording, with `pinyin` and `end` (seconds).
    """
    final = list(partials[-1])
    whole = [syllable["pinyin"] for syllable in syllables]
    first = _settled_at(partials, final)
    return [
        times[first[block.a + i]] - syllables[block.b + i]["end"]
        for block in Levenshtein.editops(final, whole).as_matching_blocks()
        for i in range(block.size)
    ]


def _settled_at(partials, final) -> list[int]:
    """Returns, for each token in `final`, the index of the piece after which the token no longer changes."""
    first, num_common = [len(partials) - 1] * len(final), len(final)
    for index in reversed(range(len(partials))):
        same = [a == b for a, b in zip(partials[index], final)]
        num_common = min(num_common, same.index(False) if False in same else len(same))
        first[:num_common] = [index] * num_common
    return first


def summarise(delays: Sequence[float]) -> dict[str, float]:
    """Returns the number of `tokens`, and the percentiles p50, p90 and p99 in seconds; 0 without delays."""
    values = np.percentile(delays, PERCENTILES) if delays else np.zeros(len(PERCENTILES))
    named = {f"p{name}": round(float(value), 3) for name, value in zip(PERCENTILES, values)}
    return {"tokens": len(delays), **named}
