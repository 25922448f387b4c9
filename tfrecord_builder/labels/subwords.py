"""Learns subwords from transcripts by byte pair encoding (Sennrich et al., 2016), with sentencepiece.

The first subword of a word begins with vocabulary.WORD_START, so joining subwords restores the text.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from types import ModuleType

from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary

_NUM_META_PIECES = 3  # <unk>, <s>, </s>
_MAX_SENTENCES = 1_000_000  # sentencepiece loads at most this many, and always the same sample
_MAX_SENTENCE_BYTES = 1 << 20  # sentencepiece ignores longer sentences
_LOG_ERRORS = 2


class SubwordModel:
    """A SentencePiece model that splits transcripts into subwords."""

    def __init__(self, model: bytes):
        """Loads a model that `train` returned; raises errors.UserError if it is not valid."""
        sentencepiece = _import_library()
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            self._processor.encode("")
        except RuntimeError as error:
            raise errors.UserError(
                f"bpe.model ({len(model)} bytes) is not a valid SentencePiece model ({error}); restore the "
                "file that belongs to the vocabulary."
            ) from None

    def encode(self, text: str) -> list[str]:
        """Returns the subwords of a normalised transcript; a run of unknown characters is one subword.

        A first subword that is only WORD_START is left out, because a transcript has no leading space.
        """
        subwords = self._processor.encode(text, out_type=str)
        return subwords[1:] if subwords[:1] == [vocabulary.WORD_START] else subwords

    def list_subwords(self) -> set[str]:
        """Returns all subwords that `encode` can return, apart from unknown characters."""
        model = self._processor
        ids = range(model.get_piece_size())
        return {model.id_to_piece(i) for i in ids if not model.is_unknown(i) and not model.is_control(i)}


def train(transcripts: Iterable[str], size: int) -> bytes:
    """Learns a SentencePiece model from normalised transcripts; empty transcripts are ignored.

    `size` is the maximum vocabulary size, including <unk>, <s> and </s>; a small corpus yields fewer
    subwords. The same transcripts in the same order yield the same bytes. Raises errors.UserError if all
    transcripts are empty, or size is too small for one subword per character.
    """
    sentencepiece = _import_library()
    characters: set[str] = set()
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_note_characters(transcripts, characters),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name="identity",
            input_sentence_size=_MAX_SENTENCES,
            max_sentence_length=_MAX_SENTENCE_BYTES,
            num_threads=1,
            minloglevel=_LOG_ERRORS,
        )
    except RuntimeError as error:
        raise errors.UserError(_explain(size, characters, error)) from error
    return model.getvalue()


def _note_characters(transcripts: Iterable[str], characters: set[str]) -> Iterator[str]:
    for transcript in filter(None, transcripts):
        characters.update(transcript)
        yield transcript


def _explain(size: int, characters: set[str], error: RuntimeError) -> str:
    if not characters:
        return (
            "--token_type=bpe: the train split has no transcripts to learn subwords from; add transcripts, "
            "or pass --vocabulary_dir=DIR to reuse the subwords of an earlier build."
        )
    least = len(characters - {" "}) + 1 + _NUM_META_PIECES  # the 1 is for WORD_START
    if size < least:
        return (
            f"--bpe_vocab_size is {size}, expected at least {least}, because every character in the train "
            f"split is a subword; pass --bpe_vocab_size={least} or more."
        )
    return (
        f"--token_type=bpe: sentencepiece cannot learn subwords from the transcripts ({error}); "
        "choose another token type."
    )


def _import_library() -> ModuleType:
    """Imports sentencepiece late, because only --token_type=bpe needs it."""
    try:
        import sentencepiece
    except ImportError as error:
        raise errors.library_missing("--token_type=bpe", error, "bpe") from error
    return sentencepiece
