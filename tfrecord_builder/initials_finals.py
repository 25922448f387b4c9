"""Toned syllables as initials and toned finals, and back: zhong1 is `zh ong1`, you3 is `iou3`, an1 is `an1`.

Finals are named as in syllables, as they sound. No capital letter is an initial or a final, so that a Latin
letter, written as a capital, is never taken for one.
"""

from __future__ import annotations

from tfrecord_builder import syllables

_INITIAL = "zh|ch|sh|[bpmfdtnlgkhjqxrzcs]"

# What turns tokens with two blanks between them into syllables with one: pattern and replacement, in order.
# Each means the same to Python's re and to RE2, TensorFlow's.
JOIN_RULES = (
    (rf"(^| )({_INITIAL})  (-?[a-zê]+[1-5])( |$)", r"\1\2\3\4"),
    (rf"(^| )({_INITIAL})iou(r?[1-5])", r"\1\2iu\3"),
    (rf"(^| )({_INITIAL})uei(r?[1-5])", r"\1\2ui\3"),
    (rf"(^| )({_INITIAL})uen(r?[1-5])", r"\1\2un\3"),
    (rf"(^| )({_INITIAL})-i", r"\1\2i"),
    (r"(^| )([jqx])v", r"\1\2u"),
    (r"(^| )i((?:n|ng)?r?[1-5])", r"\1yi\2"),
    (r"(^| )i", r"\1y"),
    (r"(^| )u(r?[1-5])", r"\1wu\2"),
    (r"(^| )u", r"\1w"),
    (r"(^| )v", r"\1yu"),
    ("  ", " "),
)


def split(token: str) -> tuple[str, ...]:
    """Gives the initial and the toned final of a syllable, the final alone where there is no initial.

    What is no syllable stays one token (see syllables.capitalise), and so does the suffix r5, which would
    become er5.
    """
    parts = syllables.split_syllable(token)
    if parts is None or token[:-1] == "r":
        return (syllables.capitalise(token),)
    initial, final, tone = parts
    return tuple(filter(None, (initial, final + tone)))
