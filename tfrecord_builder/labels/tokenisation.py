"""Converts transcripts and the pronunciations in corpora to tokens; all functions are pure.

    to_characters("o p a淮")         ->  o <space> p <space> a 淮
    normalise_pinyin("LÜ4 nu:3 de")  ->  lv4 nv3 de5

If the corpus has no pronunciation for a transcript, pinyin.py generates one.
"""

from __future__ import annotations

import functools
import re
import unicodedata

from tfrecord_builder.data import syllables, vocabulary
from tfrecord_builder.labels import normalisation

_TONED_FORM = re.compile("[a-zü:]+[0-9]")
_is_syllable = functools.cache(syllables.exists)


def to_characters(transcript: str) -> list[str]:
    """Returns the characters of a normalised transcript; a space becomes the token <space>."""
    return [vocabulary.SPACE if character == " " else character for character in transcript]


def normalise_pinyin(pinyin: str, transcript: str = "") -> list[str]:
    """Returns the tokens of a pronunciation: lower case, v for u-umlaut, neutral tone 5.

    A syllable without a tone, or with tone 0, is neutral if the transcript has a hanzi at its position;
    otherwise it is neutral only if it has several letters (unlike o and k), all in lower case. Tone marks
    (nǐ) become digits only at the position of a hanzi. A token that equals the Latin letter or digit at its
    position, apart from case, becomes that character. Other tokens that are not toned Mandarin syllables,
    such as phones from another language (HH, NG, ER0), are kept unchanged. Invisible characters are dropped.

    `transcript` is normalised. If it contains hanzi, tokens that have neither letters nor digits are dropped;
    if it then does not have one character per token, each token that does not occur in the transcript is
    treated as the syllable of a hanzi.
    """
    visible = "".join(c for c in unicodedata.normalize("NFKC", pinyin) if unicodedata.category(c) != "Cf")
    tokens, characters = visible.split(), transcript.replace(" ", "")
    if not tokens:
        return []
    first = normalisation.HANZI_RUN.search(characters)
    if first:
        tokens = [token for token in tokens if any(map(str.isalnum, token))]
    if len(characters) != len(tokens):
        hanzi = first[0][0] if first else ""
        return [_normalise_token(token, "" if token.lower() in transcript else hanzi) for token in tokens]
    return [_normalise_token(token, character) for token, character in zip(tokens, characters)]


def unknown_syllables(pinyin: str, transcript: str) -> list[str]:
    """Returns the tokens of a pronunciation that should be toned syllables but are not: hao9, xyz3.

    If the transcript contains hanzi, returns all invalid tokens except those that occur in the transcript (A
    occurs in A楼). Otherwise, returns only invalid tokens of lower-case letters and a digit, so that phones
    from another language are not returned; if there is a transcript, the tokens must also occur in it.
    """
    others = [token for token in normalise_pinyin(pinyin, transcript) if not _is_syllable(token)]
    if normalisation.HANZI_RUN.search(transcript):
        return [token for token in others if token.lower() not in transcript]
    toned = [token for token in others if _TONED_FORM.fullmatch(token)]
    return [token for token in toned if not transcript or token in transcript]


def align(transcript: str, tokens: list[str]) -> list[str]:
    """Returns the characters of a transcript if they align one to one with the tokens, otherwise [].

    They align if there are as many characters as tokens, not counting spaces, and every character that is not
    a hanzi equals its token. Er-hua in one syllable (huar1) and transcripts written in pinyin do not align.
    """
    characters = list(transcript.replace(" ", ""))
    if len(characters) != len(tokens):
        return []
    pairs = zip(characters, tokens)
    is_aligned = all(normalisation.is_hanzi(character) or character == token for character, token in pairs)
    return characters if is_aligned else []


@functools.cache
def _normalise_token(token: str, character: str) -> str:
    """Normalises a token; `character` is the transcript's character for the token, "" if unknown."""
    is_hanzi = normalisation.is_hanzi(character)
    if character and not is_hanzi and token.lower() == character:
        return character
    spelled = token.lower().replace("u:", "v")
    if is_hanzi and not spelled.isascii():
        from pypinyin.contrib import tone_convert  # slow to import; most corpora use digits

        spelled = tone_convert.to_tone3(spelled, v_to_u=False)
    spelled = spelled.replace("ü", "v")
    spelled = re.sub("^([ln])ue", r"\1ve", spelled)  # lue and nue stand for lüe and nüe
    spelled = re.sub("^([jqxy])v", r"\1u", spelled)  # pinyin omits the dots of ü after j, q, x, y
    if spelled[-1:] not in syllables.TONES:
        is_pinyin = is_hanzi or (token == token.lower() and len(token) > 1)
        spelled = spelled.removesuffix("0") + "5" if is_pinyin else ""
    return spelled if syllables.split_syllable(spelled) else token
