"""Where the errors come from: speakers, groups of them, lengths, the worst utterances, the usual confusions.

In: scored utterances. Out: plain values for metrics.json and the report; nothing here reads or writes a file.
"""

from __future__ import annotations

import bisect
import collections
import re
from collections.abc import Callable, Hashable, Sequence

from estimator_asr.scoring import edit_distance, error_rate, utterances

OTHER_GROUP = "other"
_LENGTH_BINS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # tokens: last length of each bin; one open bin follows


def overall(
    scored: Sequence[utterances.ScoredUtterance], are_speakers_people: bool = True
) -> error_rate.ErrorRate:
    """Measure all utterances together.

    Args:
      are_speakers_people: False for text, whose `speaker` is the corpus it stands in: no sample of anything.

    An utterance whose speaker is unknown counts as a speaker of its own: as one speaker together they would
    not be resampled at all, which narrows the interval.
    """
    sentences = [utterance.reference for utterance in scored]
    speakers = [
        utterance.speaker if utterance.is_speaker_known else f"\n{index}"  # no speaker has a line end
        for index, utterance in enumerate(scored)
    ]
    clusterings = (speakers, sentences) if are_speakers_people else (sentences,)
    return error_rate.measure([utterance.edits for utterance in scored], clusterings)


def by_speaker(scored: Sequence[utterances.ScoredUtterance]) -> dict[str, error_rate.ErrorRate]:
    return _by_label(scored, lambda utterance: utterance.speaker, are_speakers_people=True)


def by_group(
    scored: Sequence[utterances.ScoredUtterance], pattern: str, are_speakers_people: bool = True
) -> dict[str, error_rate.ErrorRate]:
    """Measure groups of speakers.

    Args:
      pattern: regular expression looked for in the speaker; the text that it matches names the group,
        e.g. `^[A-Za-z]+`. Speakers in which it matches nothing form the group `other`.
      are_speakers_people: as for `overall`.
    """

    def group_name(utterance: utterances.ScoredUtterance) -> str:
        match = re.search(pattern, utterance.speaker)
        return match.group(0) if match and match.group(0) else OTHER_GROUP

    return _by_label(scored, group_name, are_speakers_people)


def by_length(
    scored: Sequence[utterances.ScoredUtterance], are_speakers_people: bool = True
) -> dict[str, error_rate.ErrorRate]:
    """Measure bins of reference lengths, e.g. `5-6`, shortest first."""

    def bin_index(utterance: utterances.ScoredUtterance) -> int:
        return bisect.bisect_left(_LENGTH_BINS, len(utterance.reference_tokens))

    rates = _by_label(scored, bin_index, are_speakers_people)
    return {_bin_name(index): rate for index, rate in rates.items()}


def worst(scored: Sequence[utterances.ScoredUtterance], limit: int) -> list[utterances.ScoredUtterance]:
    """List utterances with errors, most errors first; the shorter one first among equals."""
    wrong = [utterance for utterance in scored if utterance.edits.errors]
    return sorted(wrong, key=lambda utterance: (-utterance.edits.errors, len(utterance.reference_tokens)))[
        :limit
    ]


def confusions(
    scored: Sequence[utterances.ScoredUtterance], limit: int
) -> list[tuple[edit_distance.Pair, int]]:
    """Count what was taken for what, most frequent first."""
    counts: collections.Counter[edit_distance.Pair] = collections.Counter()
    for utterance in scored:
        counts.update(edit_distance.misrecognised(utterance.reference_tokens, utterance.hypothesis_tokens))
    return counts.most_common(limit)


def _by_label(
    scored: Sequence[utterances.ScoredUtterance],
    label: Callable[[utterances.ScoredUtterance], Hashable],
    are_speakers_people: bool,
) -> dict[Hashable, error_rate.ErrorRate]:
    members = collections.defaultdict(list)
    for utterance in scored:
        members[label(utterance)].append(utterance)
    return {name: overall(members[name], are_speakers_people) for name in sorted(members)}


def _bin_name(index: int) -> str:
    first = _LENGTH_BINS[index - 1] + 1 if index else 0
    if index == len(_LENGTH_BINS):
        return f"{first}+"
    last = _LENGTH_BINS[index]
    return str(last) if first == last else f"{first}-{last}"
