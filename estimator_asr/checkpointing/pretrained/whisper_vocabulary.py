"""The part of Whisper's vocabulary that spells given characters: tokenizer.json, a byte-level BPE.

https://huggingface.co/docs/tokenizers: `model.vocab` has the ids of tokens, whose bytes are written as
printable characters (bytes_to_unicode of GPT-2's encoder.py), `model.merges` pairs in the order of training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfrecord_builder.settings import config_json
from tfrecord_builder.storage import files

_PROMPT = ("<|startoftranscript|>", "<|zh|>", "<|transcribe|>", "<|notimestamps|>")
_END = "<|endoftext|>"
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))  # bytes that stand for themselves
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTES = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + i): byte for i, byte in enumerate(_OTHERS)}


class Tokenizer(NamedTuple):
    """What is read of tokenizer.json."""

    ids: Mapping[bytes, int]
    ranks: Mapping[tuple[bytes, bytes], int]  # of the pairs that are merged
    prompt_ids: list[int]  # of a transcript in Mandarin without times
    end_id: int


class Spelling(NamedTuple):
    """Tokens that are kept; the others are fields of models/whisper_decoder.DecoderArrays."""

    token_ids: list[int]  # in the file, by new id
    token_texts: np.ndarray
    spellings: np.ndarray
    merged_pairs: np.ndarray
    merged_ranks: np.ndarray
    merged_symbols: np.ndarray


def read(path: str) -> Tokenizer:
    """Reads tokenizer.json; raises OSError or ValueError if it cannot be read or is none of Whisper."""
    values = config_json.parse(files.read_text(path))
    try:
        special = {each["content"]: each["id"] for each in values["added_tokens"]}
        vocabulary = values["model"]["vocab"]
        pairs = [each.split(" ") if isinstance(each, str) else each for each in values["model"]["merges"]]
        ids = {_to_bytes(text): number for text, number in vocabulary.items() if text not in special}
        ranks = {(_to_bytes(left), _to_bytes(right)): rank for rank, (left, right) in enumerate(pairs)}
        return Tokenizer(ids, ranks, [special[name] for name in _PROMPT], special[_END])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{error!r}, expected the byte-level BPE of a multilingual Whisper") from error


def _to_bytes(text: str) -> bytes:
    return bytes(_BYTES[character] for character in text)


def spell(tokenizer: Tokenizer, characters: Sequence[str]) -> Spelling:
    """Returns the tokens of all texts of the characters, and how these are spelled with them."""
    pieces = [_encode(tokenizer, character.encode()) for character in characters]
    known, words = set(characters), []
    for text in tokenizer.ids:
        decoded = text.decode("utf-8", "ignore")
        if len(decoded) > 1 and known.issuperset(decoded) and decoded.encode() == text:
            words.append(text)
    symbols = [b"".join(each) for each in pieces] + words
    spelled = [*pieces, *([word] for word in words)]
    texts = sorted({token for tokens in spelled for token in tokens})
    numbers, places = {text: i for i, text in enumerate(texts)}, {text: i for i, text in enumerate(symbols)}
    rows = np.full([len(symbols), max(map(len, spelled))], -1, np.int32)
    for row, tokens in zip(rows, spelled):
        row[: len(tokens)] = [numbers[token] for token in tokens]
    merges = sorted(
        (places[left] * len(symbols) + places[right], rank, places[left + right])
        for (left, right), rank in tokenizer.ranks.items()
        if left in places and right in places and left + right in places
    )
    pairs, ranks, merged = zip(*merges) if merges else ((-1,), (0,), (0,))
    ids = [tokenizer.ids[text] for text in texts]
    return Spelling(ids, np.array(texts), rows, np.int64(pairs), np.int32(ranks), np.int32(merged))


def _encode(tokenizer: Tokenizer, text: bytes) -> list[bytes]:
    """Returns the tokens of one character."""
    tokens = [bytes([byte]) for byte in text]
    while True:
        ranked = [(tokenizer.ranks.get(pair, np.inf), i) for i, pair in enumerate(zip(tokens, tokens[1:]))]
        rank, i = min(ranked, default=(np.inf, 0))
        if rank == np.inf:
            return tokens
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
