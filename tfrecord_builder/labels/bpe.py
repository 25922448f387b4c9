"""Pieces of words, learnt from the transcripts by byte pair encoding (Sennrich et al., 2016; sentencepiece).

A piece that begins a word has vocabulary.WORD_START in front, so pieces put together are the text again.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from tfrecord_builder import errors, vocabulary

_NUM_META_PIECES = 3  # <unk>, <s>, </s>
# sentencepiece holds what it learns from in memory: of more sentences it takes a sample, always the same.
_MAX_SENTENCES = 1_000_000
_MAX_SENTENCE_BYTES = 1 << 20  # longer ones would be left out
_ONLY_ERRORS = 2  # of sentencepiece's log


class BpeModel:
    """Parts transcripts into pieces."""

    def __init__(self, model: bytes):
        """Takes what `train` gave.

        Raises:
          UserError: it is something else, or sentencepiece is not installed.
        """
        try:
            self._processor = _sentencepiece().SentencePieceProcessor(model_proto=model)
            self._processor.encode("")
        except RuntimeError as error:
            raise errors.UserError(
                f"bpe.model: its {len(model)} bytes are no sentencepiece model ({error}), expected one; "
                "restore the file that belongs to the vocabulary."
            ) from None

    def encode(self, text: str) -> list[str]:
        """Gives the pieces of a normalised transcript; characters that the model never met are one piece.

        A transcript begins with no blank, so a first piece that is nothing but one is left out.
        """
        pieces = self._processor.encode(text, out_type=str)
        return pieces[1:] if pieces[:1] == [vocabulary.WORD_START] else pieces

    def pieces(self) -> set[str]:
        """Gives all that `encode` can give but characters that the model never met."""
        model = self._processor
        is_meta = [model.is_unknown(i) or model.is_control(i) for i in range(model.get_piece_size())]
        return {model.id_to_piece(i) for i, meta in enumerate(is_meta) if not meta}


def train(transcripts: Iterable[str], size: int) -> bytes:
    """Learns pieces; the same transcripts in the same order give the same bytes.

    Args:
      transcripts: normalised; empty ones are ignored.
      size: most pieces, of which 3 are sentencepiece's own; there are fewer where the transcripts are few.

    Returns:
      A sentencepiece model.

    Raises:
      UserError: there is no transcript, or size is less than the characters that occur, each of which is a
        piece; or sentencepiece is not installed.
    """
    characters: set[str] = set()
    model = io.BytesIO()
    try:
        _sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=_watch(transcripts, characters),
            model_writer=model,
            model_type="bpe",
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name="identity",
            input_sentence_size=_MAX_SENTENCES,
            max_sentence_length=_MAX_SENTENCE_BYTES,
            num_threads=1,
            minloglevel=_ONLY_ERRORS,
        )
    except RuntimeError as error:
        raise errors.UserError(_explain(size, characters, error)) from error
    return model.getvalue()


def _watch(transcripts: Iterable[str], characters: set[str]) -> Iterator[str]:
    for transcript in filter(None, transcripts):
        characters.update(transcript)
        yield transcript


def _explain(size: int, characters: set[str], error: RuntimeError) -> str:
    if not characters:
        return (
            "--token_type=bpe: the train split has no transcript, expected some to learn subwords from; "
            "add transcripts, or pass --vocabulary_dir=DIR to reuse the subwords of an earlier build."
        )
    least = len(characters - {" "}) + 1 + _NUM_META_PIECES  # 1 for the beginning of a word
    if size < least:
        return (
            f"--bpe_vocab_size: it is {size}, expected at least {least}, as every character of the train "
            f"split is a subword; pass --bpe_vocab_size={least} or more."
        )
    return (
        f"--token_type=bpe: sentencepiece cannot learn subwords from the transcripts ({error}); "
        "choose another token type."
    )


def _sentencepiece():
    try:
        import sentencepiece
    except ImportError:
        raise errors.UserError(
            "--token_type=bpe: sentencepiece is not installed, expected it; "
            "install it with python -m pip install sentencepiece==0.2.2."
        ) from None
    return sentencepiece
