"""Labels utterances with a normalised transcript, tokens, and characters if they align with the tokens."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.data import manifest, syllables, vocabulary
from tfrecord_builder.labels import normalisation, numerals, subwords, tokenisation
from tfrecord_builder.program import config_flags

# Functions that split a syllable into tokens, one function per pinyin token type.
_SPLIT_SYLLABLE = {
    "syllable": lambda token: (token,),
    "toneless": lambda token: (syllables.without_tone(token),),
    "initial_final": syllables.split_initial_final,
}
PAIRED_TOKEN_TYPES = ("syllable", "toneless")  # token types whose tokens align one to one with characters
TONED_TOKEN_TYPES = ("syllable", "initial_final")
# Flags that work only with some token types, mapped to these token types.
_TOKEN_TYPES_OF = {
    "user_dictionary": tuple(_SPLIT_SYLLABLE),
    "tone_sandhi": TONED_TOKEN_TYPES,
    "bpe_vocab_size": ("bpe",),
}


@dataclasses.dataclass(frozen=True)
class LabelConfig(config_flags.Checked):
    """Settings for the conversion of transcripts and pinyin to tokens."""

    token_type: str = config_flags.setting(
        "syllable",
        "unit of the tokens: syllable (zhong1), toneless (zhong), initial_final (zh ong1), character, or bpe "
        "(subwords, for any language); a language model needs syllable or toneless. Each Latin letter is "
        "one token (in upper case with toneless and initial_final); only bpe joins letters into subwords",
        choices=vocabulary.TOKEN_TYPES,
    )
    user_dictionary: str = config_flags.setting(
        "",
        "file with a phrase and its pinyin on each line (phrase<TAB>pin1 yin1); these readings take "
        "precedence over pypinyin's and are exempt from tone sandhi",
    )
    tone_sandhi: bool = config_flags.setting(
        False,
        "for utterances without pinyin, apply tone sandhi to third tones, 一 and 不, and choose the reading "
        "of 得, 地, 为 and similar hanzi from the surrounding words",
    )
    numbers: str = config_flags.setting(
        "keep",
        "what to do with digits in transcripts: keep (each digit is a token; points and signs are dropped) "
        "or read (23个 becomes 二十三个, 2026年 二零二六年, 8:30 八点三十分, 12.5% 百分之十二点五; "
        "see docs/numbers.md); if the corpus has pinyin, numbers are read only where this makes the "
        "transcript align with the pinyin",
        choices=("keep", "read"),
    )
    bpe_vocab_size: int = config_flags.setting(
        500, "maximum number of subwords for --token_type=bpe", minimum=1
    )

    def __post_init__(self):
        super().__post_init__()
        for name, token_types in _TOKEN_TYPES_OF.items():
            value = getattr(self, name)
            if self.token_type not in token_types and value != getattr(LabelConfig, name):
                raise errors.UserError(
                    f"--{name}={value} needs --token_type={'|'.join(token_types)}, but --token_type is "
                    f"{self.token_type}; leave --{name} out or change --token_type."
                )


@dataclasses.dataclass(frozen=True)
class Labels:
    """The labels of one utterance.

    `characters` is empty if the characters do not align one to one with the tokens, or if the token type is
    not in PAIRED_TOKEN_TYPES. Texts for the punctuation model have characters and marks, but no tokens.
    """

    transcript: str  # normalised; empty if the corpus has only a pronunciation
    tokens: tuple[str, ...]  # labels for the acoustic model; their type is LabelConfig.token_type
    characters: tuple[str, ...]  # labels for the language model, one per token
    mark_ids: tuple[int, ...] = ()  # labels for the punctuation model, one per character


class Labeller:
    """Labels utterances; the labels depend only on the utterance and the constructor's arguments."""

    def __init__(self, config: LabelConfig, bpe_model: Optional[bytes] = None):
        """Loads the user's dictionary, if any; raises errors.UserError if it or the model is not valid.

        `bpe_model` is the SentencePiece model for the token type bpe.
        """
        self.config = config
        self._bpe_sha256 = bpe_model and hashlib.sha256(bpe_model).hexdigest()
        self._subwords = None if bpe_model is None else subwords.SubwordModel(bpe_model)
        self._phrases: dict[str, tuple[str, ...]] = {}
        if config.user_dictionary:
            from tfrecord_builder.labels import pinyin  # slow to import; not needed if the corpus has pinyin

            self._phrases = pinyin.load_phrases(config.user_dictionary)

    def describe(self) -> list:
        """Returns everything that labels depend on besides the utterance and the code, as JSON values."""
        return [dataclasses.asdict(self.config), self._phrases, self._bpe_sha256]

    def __call__(self, utterance: manifest.Utterance) -> Labels:
        text = _read_numbers(utterance, self.config)
        transcript = normalisation.normalise(text)
        token_type = self.config.token_type
        if token_type == "character":
            return Labels(transcript, tuple(tokenisation.to_characters(transcript)), ())
        if token_type == "bpe":
            return Labels(transcript, tuple(self._subwords.encode(transcript)), ())
        pinyin = tokenisation.normalise_pinyin(utterance.pinyin, transcript) or self._read(text)
        tokens = [token for syllable in pinyin for token in _SPLIT_SYLLABLE[token_type](syllable)]
        characters = tokenisation.align(transcript, pinyin) if token_type in PAIRED_TOKEN_TYPES else ()
        return Labels(transcript, tuple(tokens), tuple(characters))

    def has_unclear_numbers(self, utterance: manifest.Utterance) -> bool:
        """Returns True if the labels come from the transcript and may lose part of a number in it."""
        uses_transcript = self.config.token_type not in _SPLIT_SYLLABLE or not utterance.pinyin
        return uses_transcript and numerals.is_unclear(utterance.text, self.config.numbers)

    def count_left_out(self, utterance: manifest.Utterance) -> collections.Counter[str]:
        """Counts, by kind, the characters other than punctuation that are left out of the labels."""
        return normalisation.count_left_out(_read_numbers(utterance, self.config))

    def unknown_syllables(self, utterance: manifest.Utterance, transcript: str) -> list[str]:
        """Returns tokens in the corpus's pinyin that are invalid syllables; [] if the pinyin is not used."""
        is_used = self.config.token_type in _SPLIT_SYLLABLE
        return tokenisation.unknown_syllables(utterance.pinyin, transcript) if is_used else []

    @functools.cached_property
    def _reader(self):
        from tfrecord_builder.labels import pinyin

        return pinyin.PinyinReader(self._phrases, self.config.tone_sandhi)

    def _read(self, text: str) -> list[str]:
        """Returns a transcript's pinyin, phrase by phrase, so that words and sandhi never cross a pause."""
        phrases = normalisation.split_phrases(text)
        return [syllable for phrase in phrases for syllable in self._reader.read(phrase)]


def make_transcript(utterance: manifest.Utterance, config: LabelConfig) -> str:
    """Returns an utterance's normalised transcript, without tokenising it; used to learn subwords."""
    return normalisation.normalise(_read_numbers(utterance, config))


def dictionary_tokens(character: str, config: LabelConfig) -> set[str]:
    """Returns tokens for a character's dictionary readings and, with tone sandhi, for changed third tones.

    Readings from the user's dictionary are not included; the train split's labels contain those in use.
    """
    if not normalisation.is_hanzi(character):
        return set()
    from tfrecord_builder.labels import pinyin

    readings = set(pinyin.dictionary_readings(character))
    if config.tone_sandhi:
        readings |= {f"{syllable[:-1]}2" for syllable in readings if syllable.endswith("3")}
    return {token for syllable in readings for token in _SPLIT_SYLLABLE[config.token_type](syllable)}


def _read_numbers(utterance: manifest.Utterance, config: LabelConfig) -> str:
    """Returns the corpus's transcript, with numbers in hanzi if config and the corpus's pinyin allow it."""
    if config.numbers == "keep":
        return utterance.text
    text_in_hanzi = numerals.read(utterance.text)
    if not tokenisation.normalise_pinyin(utterance.pinyin):
        return text_in_hanzi
    is_better = _aligns(text_in_hanzi, utterance.pinyin) and not _aligns(utterance.text, utterance.pinyin)
    return text_in_hanzi if is_better else utterance.text


def _aligns(text: str, pinyin: str) -> bool:
    transcript = normalisation.normalise(text)
    return bool(tokenisation.align(transcript, tokenisation.normalise_pinyin(pinyin, transcript)))
