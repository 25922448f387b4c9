"""Emission delay: the time from the end of a syllable until its token in the transcript no longer changes.

The end of a syllable is the end of its token's frames when the same model recognises the whole recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

OUTPUT = "emission_delays"  # output of an utterance: a list of seconds
PERCENTILES = (50, 90, 99)


def measure(
    partials: Sequence[Sequence[str]], times: Sequence[float], syllables: Sequence[Mapping]
) -> list[float]:
    """Returns the delay of each token that is in both transcripts, in seconds, in their order.

    Args:
        partials: tokens of the transcript after each piece of a recording; the last one is final.
        times: seconds of the recording up to the end of each piece.
        syllables: syllables that the same model finds in the whole recording: `pinyin`, and `end` in seconds.
    """
    final = list(partials[-1])
    whole = [syllable["pinyin"] for syllable in syllables]
    pairs = [
        (block.a + i, block.b + i)
        for block in Levenshtein.editops(final, whole).as_matching_blocks()
        for i in range(block.size)
    ]
    first = _settled_at(partials, final)
    return [times[first[place]] - syllables[other]["end"] for place, other in pairs]


def _settled_at(partials, final) -> list[int]:
    """Returns, for each token of the final transcript, the first piece after which it no longer changes."""
    first, num_common = [len(partials) - 1] * len(final), len(final)
    for index in reversed(range(len(partials))):
        same = [a == b for a, b in zip(partials[index], final)]
        num_common = min(num_common, same.index(False) if False in same else len(same))
        first[:num_common] = [index] * num_common
    return first


def summarise(delays: Sequence[float]) -> dict[str, float]:
    """Returns the number of `tokens`; `p50`, `p90` and `p99` are percentiles in seconds, 0 without tokens."""
    values = np.percentile(delays, PERCENTILES) if delays else np.zeros(len(PERCENTILES))
    named = {f"p{name}": round(float(value), 3) for name, value in zip(PERCENTILES, values)}
    return {"tokens": len(delays), **named}
