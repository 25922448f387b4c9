"""What an utterance is labelled with: transcript, tokens and, where they stand one to one, characters."""

from __future__ import annotations

import dataclasses

from tfrecord_builder import manifest, text

UNITS = ("syllable", "character")


@dataclasses.dataclass(frozen=True)
class Labels:
    """The labels of one utterance.

    Attributes:
      transcript: normalised transcript; may be empty where the corpus gives only a pronunciation.
      tokens: what the acoustic model learns to write: toned syllables or characters.
      characters: what the language model learns to write, one a token; empty where they do not stand one to
        one, and always empty for characters as tokens, which leave it nothing to do.
    """

    transcript: str
    tokens: tuple[str, ...]
    characters: tuple[str, ...]


def make_labels(utterance: manifest.Utterance, unit: str) -> Labels:
    """Gives the labels of an utterance for tokens of the given unit ("syllable" or "character")."""
    transcript = text.normalise(utterance.text)
    if unit == "character":
        return Labels(transcript, tuple(text.to_characters(transcript)), ())
    tokens = text.normalise_pinyin(utterance.pinyin, transcript) or text.to_syllables(transcript)
    return Labels(transcript, tuple(tokens), tuple(text.one_to_one(transcript, tokens)))
