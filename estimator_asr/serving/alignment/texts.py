"""Reads the text of a recording as sentences, which consist of phrases with their tokens.

The text is kept as it is written; its tokens are what a speaker says. Numbers are read, tones change as in
speech (tone sandhi), and brackets, punctuation and references to footnotes, such as [3], have no tokens.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from tfrecord_builder import errors
from tfrecord_builder.corpora import text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling, normalisation

_LONGEST_PHRASE = 20  # hanzi; text without punctuation is divided into phrases of this length
_LONGEST_SENTENCE = 60  # tokens; a sentence ends with the phrase that reaches this length
_REFERENCE = r"[\[［〔][0-9０-９]{1,3}[\]］〕]"
_FOOTNOTE = re.compile(rf"{_REFERENCE}|(?<![0-9A-Za-z])[\u00b9\u00b2\u00b3\u2070-\u2079]+|[†‡]")
_OPENING, _CLOSING = "(（[［【〔{｛", ")）]］】〕}｝"  # not 《》: titles are read aloud
_MARKS = re.escape(f"。！？!?…；;，,、：:—.{_OPENING}{_CLOSING}")
_AFTER_MARKS = re.escape(f"”’」』\"'》{_CLOSING}")
# A phrase ends with a mark and any closing quotes and brackets after it. A mark between digits (3.5, 8:30,
# 5-10) and a point within a word do not end a phrase. Enclosed numbers are phrases of their own.
_PHRASE = re.compile(
    rf"[①-⑳]+|(?:{_REFERENCE}|[^{_MARKS}①-⑳]|(?<=[0-9])[.,:：—](?=[0-9])|\.(?=\w))*"
    rf"(?:(?:(?!{_REFERENCE})[{_MARKS}])+[{_AFTER_MARKS}]*|(?=[①-⑳])|$)"
)
_SENTENCE_END = re.compile(rf"[。！？!?…；;.][{_AFTER_MARKS}]*\s*$")
_HANZI = normalisation.HANZI_RUN.pattern[2:-3]  # the content of the brackets in ([...]+)
_CHUNK = re.compile(
    rf"(?:[^{_HANZI}]{{0,200}}[{_HANZI}]){{1,{_LONGEST_PHRASE}}}(?:[^{_HANZI}]{{0,200}}$)?|[^{_HANZI}]{{1,200}}"
)

Tokenise = Callable[[str], tuple[str, ...]]


class Phrase(NamedTuple):
    """A part of a sentence: text as it is written, with the mark that ends it, and its tokens."""

    text: str
    tokens: tuple[str, ...]
    may_be_silent: bool = False  # True in brackets and for numbers such as ①, which not every speaker reads


class TextSentence(NamedTuple):
    """A sentence or heading."""

    phrases: tuple[Phrase, ...]
    is_whole: bool = True  # False if the sentence was too long, so that it continues in the next TextSentence

    @property
    def text(self) -> str:
        return "".join(phrase.text for phrase in self.phrases).strip()

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(token for phrase in self.phrases for token in phrase.tokens)


@functools.lru_cache(maxsize=2)  # one for the model's tokens, one for the syllables of written_words
def load_labeller(token_type: str) -> labelling.Labeller:
    """Returns a labeller for the utterances of a corpus; raises errors.UserError for subwords (bpe)."""
    if token_type == "bpe":
        raise errors.UserError(
            "the tokens of the model are subwords (bpe), with which text cannot be aligned; use a model of "
            "syllables, initials and finals, or characters"
        )
    has_tones = token_type in labelling.TONED_TOKEN_TYPES
    return labelling.Labeller(labelling.LabelConfig(token_type, tone_sandhi=has_tones, numbers="read"))


def make_labeller(token_type: str) -> Callable[[str], labelling.Labels]:
    """Returns a function that labels text; see load_labeller."""
    labeller = load_labeller(token_type)
    return lambda text: labeller(manifest.Utterance("", None, "", _FOOTNOTE.sub("", text), "", "train"))


def make_tokeniser(token_type: str) -> Tokenise:
    """Returns a function that converts text to tokens; see load_labeller."""
    label = make_labeller(token_type)
    return lambda text: label(text).tokens


def check(path: str) -> None:
    """Raises errors.UserError if a text cannot be read, its encoding is not supported, or it has no words."""
    if not any(any(map(str.isalnum, line)) for line in _read_lines(path)):
        raise errors.UserError(f"{path} contains no words; write what is said in the recording into it")


def read_pairs(path: str) -> list[tuple[str, str, str]]:
    """Returns path, name and text path of each recording in a list; raises errors.UserError if it is invalid.

    The name is the path of the recording as it is written, without its extension.
    """
    rows: dict[str, tuple[str, str, str]] = {}
    for number, line in enumerate(_read_lines(path), 1):
        columns = [column.strip() for column in line.split("\t")]
        if not line.strip():
            continue
        name = os.path.splitext(columns[0])[0]
        if len(columns) != 2 or not all(columns) or name in rows:
            problem = "names a recording again" if name in rows else "is not a recording and a text"
            raise errors.UserError(
                f"{path}: line {number} {problem}; write one recording and its text, separated by a tab, on "
                "each line"
            )
        here = os.path.realpath(os.path.dirname(path))
        audio, text = (os.path.join(here, column) for column in columns)
        rows[name] = audio, name, text
    return list(rows.values())


def read_sentences(path: str, tokenise: Tokenise) -> list[TextSentence]:
    """Returns the sentences of a text file, in which a line break also ends a sentence; see `check`."""
    return list(split_sentences(_read_lines(path), tokenise))


def split_sentences(lines: Iterable[str], tokenise: Tokenise) -> Iterator[TextSentence]:
    """Yields the sentences that have tokens."""
    for line in lines:
        phrases: list[Phrase] = []
        for text, may_be_silent in _split_phrases(line):
            if sum(len(phrase.tokens) for phrase in phrases) >= _LONGEST_SENTENCE:
                yield from _finish(phrases, is_whole=False)
                phrases = []
            phrases.append(Phrase(text, tokenise(text), may_be_silent))
            if _SENTENCE_END.search(text):
                yield from _finish(phrases)
                phrases = []
        yield from _finish(phrases)


def simplify(sentences: Sequence[TextSentence], known: Collection[str]) -> list[TextSentence]:
    """Replaces traditional characters with simplified ones, unless the model knows them (`known`)."""
    unknown = {token for sentence in sentences for token in sentence.tokens} - set(known)
    forms = normalisation.find_traditional({*unknown, *known}) if unknown else {}
    forms = {old: new for old, new in forms.items() if old in unknown}
    return [
        sentence._replace(
            phrases=tuple(
                phrase._replace(tokens=tuple(forms.get(token, token) for token in phrase.tokens))
                for phrase in sentence.phrases
            )
        )
        for sentence in sentences
    ]


def _read_lines(path):
    return text_files.read_lines(path, "pass a text file")


def _split_phrases(line: str) -> Iterator[tuple[str, bool]]:
    """Yields the phrases of a line, and True for those that may be silent."""
    depth = 0
    for match in _PHRASE.finditer(line):
        for chunk in _CHUNK.findall(match[0]):
            yield chunk, depth > 0 or "①" <= chunk[0] <= "⑳"
        depth = max(0, depth + sum((c in _OPENING) - (c in _CLOSING) for c in match[0]))


def _finish(phrases: list[Phrase], is_whole: bool = True) -> Iterator[TextSentence]:
    if any(phrase.tokens for phrase in phrases):
        yield TextSentence(tuple(phrases), is_whole)
