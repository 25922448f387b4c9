"""Selects, from Whisper's vocabulary (byte-level BPE), the tokens that spell certain characters.

In tokenizer.json (https://huggingface.co/docs/tokenizers), `model.vocab` maps tokens to ids. Each byte of a
token is written as a printable character (see bytes_to_unicode in GPT-2's encoder.py). `model.merges` lists
the pairs to merge, in the order in which training found them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files

_PROMPT = ("<|startoftranscript|>", "<|zh|>", "<|transcribe|>", "<|notimestamps|>")
_END = "<|endoftext|>"
# Bytes that are written as the character with the same code point.
_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_UNPRINTED = [byte for byte in range(256) if byte not in _PRINTABLE]
_BYTES = {chr(byte): byte for byte in _PRINTABLE} | {chr(256 + i): byte for i, byte in enumerate(_UNPRINTED)}


class Tokenizer(NamedTuple):
    """The tokens and merges in tokenizer.json."""

    ids: Mapping[bytes, int]
    ranks: Mapping[tuple[bytes, bytes], int]  # rank of each pair to merge; the lowest is merged first
    prompt_ids: list[int]  # prompt for a Mandarin transcript without timestamps
    end_id: int


class Spelling(NamedTuple):
    """The selected tokens; for all other fields, see models/whisper_decoder.DecoderArrays."""

    token_ids: list[int]  # ids in tokenizer.json; a token's index in this list is its new id
    token_texts: np.ndarray
    spellings: np.ndarray
    merged_pairs: np.ndarray
    merged_ranks: np.ndarray
    merged_symbols: np.ndarray


def read(path: str) -> Tokenizer:
    """Reads tokenizer.json; raises OSError or ValueError if the file cannot be read or is not Whisper's."""
    values = config_json.parse(files.read_text(path))
    try:
        special = {token["content"]: token["id"] for token in values["added_tokens"]}
        vocabulary = values["model"]["vocab"]
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in values["model"]["merges"]]
        ids = {_to_bytes(text): number for text, number in vocabulary.items() if text not in special}
        ranks = {(_to_bytes(first), _to_bytes(second)): rank for rank, (first, second) in enumerate(pairs)}
        return Tokenizer(ids, ranks, [special[name] for name in _PROMPT], special[_END])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{error!r}; this is not a multilingual Whisper model's tokenizer") from error


def _to_bytes(text: str) -> bytes:
    return bytes(_BYTES[character] for character in text)


def spell(tokenizer: Tokenizer, characters: Sequence[str]) -> Spelling:
    """Selects the tokens that spell `characters`, and the tokens that consist of several of these characters.

    In the result, the symbols are `characters`, followed by the texts of the tokens with several characters.
    `spellings` lists the selected tokens that spell each symbol.
    """
    spelled, known = [_encode(tokenizer, character.encode()) for character in characters], set(characters)
    for text in tokenizer.ids:
        decoded = text.decode("utf-8", "ignore")
        if len(decoded) > 1 and known.issuperset(decoded) and decoded.encode() == text:
            spelled.append([text])
    symbols = [b"".join(tokens) for tokens in spelled]
    texts = sorted({token for tokens in spelled for token in tokens})
    numbers, places = {text: i for i, text in enumerate(texts)}, {text: i for i, text in enumerate(symbols)}
    rows = np.full([len(symbols), max(map(len, spelled))], -1, np.int32)
    for row, tokens in zip(rows, spelled):
        row[: len(tokens)] = [numbers[token] for token in tokens]
    merges = sorted(
        (places[first] * len(symbols) + places[second], rank, places[first + second])
        for (first, second), rank in tokenizer.ranks.items()
        if first in places and second in places and first + second in places
    )
    pairs, ranks, merged = zip(*merges) if merges else ((-1,), (0,), (0,))
    ids = [tokenizer.ids[text] for text in texts]
    return Spelling(ids, np.array(texts), rows, np.int64(pairs), np.int32(ranks), np.int32(merged))


def _encode(tokenizer: Tokenizer, text: bytes) -> list[bytes]:
    """Returns the tokens that spell a character, given as UTF-8 in `text`."""
    tokens = [bytes([byte]) for byte in text]
    while True:
        ranked = [(tokenizer.ranks.get(pair, np.inf), i) for i, pair in enumerate(zip(tokens, tokens[1:]))]
        rank, i = min(ranked, default=(np.inf, 0))
        if rank == np.inf:
            return tokens
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]
