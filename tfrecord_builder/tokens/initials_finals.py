"""Toned syllables as initials and toned finals, and back: zhong1 is `zh ong1`, you3 is `iou3`, an1 is `an1`.

Finals are named by sound, as in syllables. No initial or final is in capitals: a Latin letter, written as a
capital, cannot be mistaken for one.
"""

from __future__ import annotations

from tfrecord_builder.tokens import syllables

INITIAL = "zh|ch|sh|[bpmfdtnlgkhjqxrzcs]"
FINAL = "-?[a-zê]+[1-5]"

# From tokens separated by two spaces to syllables separated by one: patterns and replacements, in order. Each
# has the same meaning in Python's re and in TensorFlow's RE2.
JOIN_RULES = (
    (rf"(^| )({INITIAL})  ({FINAL})( |$)", r"\1\2\3\4"),
    (rf"(^| )({INITIAL})iou(r?[1-5])", r"\1\2iu\3"),
    (rf"(^| )({INITIAL})uei(r?[1-5])", r"\1\2ui\3"),
    (rf"(^| )({INITIAL})uen(r?[1-5])", r"\1\2un\3"),
    (rf"(^| )({INITIAL})-i", r"\1\2i"),
    (r"(^| )([jqx])v", r"\1\2u"),
    (r"(^| )i((?:n|ng)?r?[1-5])", r"\1yi\2"),
    (r"(^| )i", r"\1y"),
    (r"(^| )u(r?[1-5])", r"\1wu\2"),
    (r"(^| )u", r"\1w"),
    (r"(^| )v", r"\1yu"),
    ("  ", " "),
)


def split(token: str) -> tuple[str, ...]:
    """Returns the initial and the toned final of a syllable, or the final alone if it has no initial.

    Any other token stays one token (see syllables.capitalise), as does the suffix r5, which would become er5.
    """
    parts = syllables.split_syllable(token)
    if parts is None or token[:-1] == "r":
        return (syllables.capitalise(token),)
    initial, final, tone = parts
    return tuple(filter(None, (initial, final + tone)))
