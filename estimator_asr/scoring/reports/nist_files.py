"""Reference and hypothesis as sclite of NIST's SCTK 2.4 reads them: segment time marks and times of tokens.

    reference.stm    u1 1 s1 0.000 1.240 <O> 你 好     recording, channel, speaker, start, end, label, tokens
    hypothesis.ctm   u1 1 0.480 0.040 你 0.952         recording, channel, start, duration, token, confidence

Each utterance is a recording of its own, which ends with its last token: its real end is not known here.
Formats: SCTK 2.4, doc/infmts.htm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from estimator_asr.scoring import utterances

STM_FILE = "reference.stm"
CTM_FILE = "hypothesis.ctm"
FILES = {STM_FILE, CTM_FILE}
_CHANNEL = "1"
_LABEL = "<O>"  # without it, a first token such as <unk> would be the label
_SHORTEST = 0.001  # seconds; a recording without tokens must not end at its start
_NO_SPEAKER = "unknown"
# Signs with a meaning in the formats: optional words, alternatives, the empty word.
_FULL_WIDTH = str.maketrans("(){}/@", "（）｛｝／＠")


def contents(
    measure: str, scored: Sequence[utterances.ScoredUtterance], outputs: Sequence[Mapping]
) -> dict[str, str]:
    """Returns the content of each file by its name; none where the outputs have no times.

    Args:
        measure: key of utterances.MEASURES; how texts become tokens.
        scored: utterances, ordered by their ids.
        outputs: of the recogniser for each utterance; `characters` is a list of `character`, `start`, `end`
            (seconds) and `confidence`.
    """
    characters = {each["utterance_id"]: each["characters"] for each in outputs if "characters" in each}
    if not scored or any(each.utterance_id not in characters for each in scored):
        return {}
    segments, words = "", ""
    for each in scored:
        items = characters[each.utterance_id]
        name, speaker = (
            re.sub(r"\s", "_", text) or _NO_SPEAKER for text in (each.utterance_id, each.speaker)
        )
        end = max([_SHORTEST, *(item["end"] for item in items)])
        tokens = "".join(f" {token}" for token in each.reference_tokens).translate(_FULL_WIDTH)
        segments += f"{name} {_CHANNEL} {speaker} 0.000 {end:.3f} {_LABEL}{tokens}\n"
        words += "".join(f"{name} {_CHANNEL} {word}\n" for word in _list_words(measure, items))
    return {STM_FILE: segments, CTM_FILE: words}


def _list_words(measure: str, items: Sequence[Mapping]) -> Iterator[str]:
    """Yields start, duration, token and confidence; the tokens of an item share its time."""
    for item in items:
        tokens = utterances.MEASURES[measure](item["character"])
        duration = (item["end"] - item["start"]) / max(1, len(tokens))
        for index, token in enumerate(tokens):
            start = item["start"] + index * duration
            yield f"{start:.3f} {duration:.3f} {token.translate(_FULL_WIDTH)} {item['confidence']:.3f}"
