"""What an utterance is labelled with: transcript, tokens and, where they stand one to one, characters."""

from __future__ import annotations

import dataclasses
import functools
from typing import Optional

from tfrecord_builder import config_flags, errors, initials_finals, manifest, syllables, vocabulary
from tfrecord_builder.labels import bpe, numerals, tokenisation, user_dictionary

# A syllable to the tokens of the token types that are spoken.
_SPOKEN_TOKEN_TYPES = {
    "syllable": lambda token: (token,),
    "toneless": lambda token: (syllables.without_tone(token),),
    "initial_final": initials_finals.split,
}
PAIRED_TOKEN_TYPES = ("syllable", "toneless")  # their tokens stand one to one against characters
# The flags that say nothing for other token types.
_TOKEN_TYPES_OF = {
    "user_dictionary": tuple(_SPOKEN_TOKEN_TYPES),
    "tone_sandhi": ("syllable", "initial_final"),
    "bpe_vocab_size": ("bpe",),
}


@dataclasses.dataclass(frozen=True)
class LabelConfig:
    """How transcripts and pinyin become tokens."""

    token_type: str = config_flags.setting(
        "syllable",
        "what a token is: zhong1 (syllable), zhong (toneless), zh ong1 (initial_final), a character, or a "
        "piece of a word in any language (bpe); a language model needs syllable or toneless, as the others "
        "leave it nothing to write. A Latin letter is a token of its own, a capital one with toneless and "
        "initial_final, and only with bpe a part of one",
        choices=vocabulary.TOKEN_TYPES,
        former_name="unit",
    )
    user_dictionary: str = config_flags.setting(
        "",
        "file of phrases and how to read them, phrase<TAB>pin1 yin1 a line, before pypinyin's; no tone of "
        "theirs changes",
    )
    tone_sandhi: bool = config_flags.setting(
        False,
        "change third tones and those of 一 and 不 as in speech, where the corpus gives no pinyin",
    )
    numbers: str = config_flags.setting(
        "keep",
        "digits in transcripts: keep (each is a token) or read (23 is 二十三, 2026年 is 二零二六年, 3.5 is "
        "三点五, 50% is 百分之五十, seven digits and more one by one); where the corpus gives pinyin, "
        "only if the transcript then pairs with it",
        choices=("keep", "read"),
    )
    bpe_vocab_size: int = config_flags.setting(
        500, "maximum number of subwords, with --token_type=bpe", minimum=1, former_name="bpe_size"
    )

    def __post_init__(self):
        config_flags.validate(self)
        for field in dataclasses.fields(self):
            allowed = _TOKEN_TYPES_OF.get(field.name, vocabulary.TOKEN_TYPES)
            value = getattr(self, field.name)
            if self.token_type not in allowed and value != field.default:
                raise errors.UserError(
                    f"--token_type={self.token_type}, --{field.name}={value}: that flag is for "
                    f"--token_type={'|'.join(allowed)}, "
                    "expected one of them; leave the flag out or choose such a token type."
                )


@dataclasses.dataclass(frozen=True)
class Labels:
    """The labels of one utterance.

    Attributes:
      transcript: normalised transcript; may be empty where the corpus gives only a pronunciation.
      tokens: what the acoustic model learns to write, of the token type of LabelConfig.
      characters: what the language model learns to write, one a token; empty where they do not stand one to
        one, and for every token type that is not in PAIRED_TOKEN_TYPES.
    """

    transcript: str
    tokens: tuple[str, ...]
    characters: tuple[str, ...]


class Labeller:
    """Labels utterances: labeller(utterance) gives Labels, which depend on that and the config alone."""

    def __init__(self, config: LabelConfig, bpe_model: Optional[bpe.BpeModel] = None):
        """Reads the user's dictionary.

        Args:
          config: how to label.
          bpe_model: what parts transcripts, for the token type bpe.

        Raises:
          UserError: the dictionary cannot be read or is not as it should be.
        """
        self._config = config
        self._bpe_model = bpe_model
        self._phrases = user_dictionary.load(config.user_dictionary) if config.user_dictionary else {}

    def __call__(self, utterance: manifest.Utterance) -> Labels:
        written = _write_numbers(utterance, self._config)
        transcript = tokenisation.normalise(written)
        if self._config.token_type == "character":
            return Labels(transcript, tuple(tokenisation.to_characters(transcript)), ())
        if self._config.token_type == "bpe":
            return Labels(transcript, tuple(self._bpe_model.encode(transcript)), ())
        spoken = tokenisation.normalise_pinyin(utterance.pinyin, transcript) or self._read(written)
        tokens = [token for each in spoken for token in _SPOKEN_TOKEN_TYPES[self._config.token_type](each)]
        is_paired = self._config.token_type in PAIRED_TOKEN_TYPES
        characters = tokenisation.one_to_one(transcript, spoken) if is_paired else ()
        return Labels(transcript, tuple(tokens), tuple(characters))

    @functools.cached_property
    def _reader(self):
        from tfrecord_builder.labels import (
            pinyin,  # pypinyin's tables take time, which a corpus with pinyin saves
        )

        return pinyin.Reader(self._phrases, self._config.tone_sandhi)

    def unknown_syllables(self, utterance: manifest.Utterance, transcript: str) -> list[str]:
        """Returns what should be a syllable and is not in the corpus's pinyin, where that becomes tokens."""
        is_spoken = self._config.token_type in _SPOKEN_TOKEN_TYPES
        return tokenisation.unknown_syllables(utterance.pinyin, transcript) if is_spoken else []

    def _read(self, written: str) -> list[str]:
        """Reads a transcript with its punctuation: no word and no change of tone reaches over a pause."""
        phrases = tokenisation.to_phrases(written)
        return [
            syllable for phrase in phrases for syllable in tokenisation.to_syllables(phrase, self._reader)
        ]


def make_transcript(utterance: manifest.Utterance, config: LabelConfig) -> str:
    """Gives the transcript of the labels alone, which the pieces of the token type bpe are learnt from."""
    return tokenisation.normalise(_write_numbers(utterance, config))


def dictionary_tokens(character: str, config: LabelConfig) -> set[str]:
    """Gives the tokens that the dictionary would write for a character, alone or before a third tone.

    The user's dictionary adds none: what it reads stands in the labels.
    """
    found = _dictionary_readings(character) if tokenisation.is_hanzi(character) else set()
    if config.tone_sandhi:
        found |= {f"{syllable[:-1]}2" for syllable in found if syllable.endswith("3")}
    return {token for syllable in found for token in _SPOKEN_TOKEN_TYPES[config.token_type](syllable)}


def _dictionary_readings(hanzi: str) -> set[str]:
    from tfrecord_builder.labels import pinyin

    return set(pinyin.dictionary_readings(hanzi))


def _write_numbers(utterance: manifest.Utterance, config: LabelConfig) -> str:
    """Gives the corpus's transcript, its numbers in hanzi where config says so and the pinyin allows it."""
    if config.numbers == "keep":
        return utterance.text
    spoken = numerals.read(utterance.text)
    if not tokenisation.normalise_pinyin(utterance.pinyin):
        return spoken
    pairs_only_so = _pairs(spoken, utterance.pinyin) and not _pairs(utterance.text, utterance.pinyin)
    return spoken if pairs_only_so else utterance.text


def _pairs(written: str, pronunciation: str) -> bool:
    transcript = tokenisation.normalise(written)
    return bool(tokenisation.one_to_one(transcript, tokenisation.normalise_pinyin(pronunciation, transcript)))
