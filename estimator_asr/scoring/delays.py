"""Emission delay: how long after the end of a syllable its token stands in the transcript for good.

The end of a syllable is that of the frames in which the same model has its token when it hears the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

OUTPUT = "emission_delays"  # of each utterance, in seconds
PERCENTILES = (50, 90, 99)


def measure(
    partials: Sequence[Sequence[str]], times: Sequence[float], syllables: Sequence[Mapping]
) -> list[float]:
    """Returns the delay of each token that is in both transcripts, in seconds, in their order.

    Args:
        partials: tokens of the transcript after each piece of a recording; the last one is final.
        times: seconds of the recording that had been heard by then.
        syllables: of the transcript of the whole recording by the same model, `pinyin` and `end` in seconds.
    """
    final = list(partials[-1])
    whole = [each["pinyin"] for each in syllables]
    pairs = [
        (block.a + i, block.b + i)
        for block in Levenshtein.editops(final, whole).as_matching_blocks()
        for i in range(block.size)
    ]
    first = _settled_at(partials, final)
    return [times[first[place]] - syllables[other]["end"] for place, other in pairs]


def _settled_at(partials, final) -> list[int]:
    """Returns, for each token of the final transcript, the first piece after which it never changes."""
    first, num_common = [len(partials) - 1] * len(final), len(final)
    for index in reversed(range(len(partials))):
        same = [a == b for a, b in zip(partials[index], final)]
        num_common = min(num_common, same.index(False) if False in same else len(same))
        first[:num_common] = [index] * num_common
    return first


def summarise(delays: Sequence[float]) -> dict[str, float]:
    """Returns `tokens`, their number, and seconds by `p50`, `p90` and `p99`; these are 0 without tokens."""
    values = np.percentile(delays, PERCENTILES) if delays else np.zeros(len(PERCENTILES))
    named = {f"p{name}": round(float(value), 3) for name, value in zip(PERCENTILES, values)}
    return {"tokens": len(delays), **named}
