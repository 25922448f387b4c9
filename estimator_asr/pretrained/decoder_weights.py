"""Reads Whisper's decoder, and reduces its vocabulary to tokens that spell a language model's characters."""

from __future__ import annotations

import os
import types

import numpy as np

from estimator_asr.experiment import model_directory
from estimator_asr.pretrained import encoder_weights, whisper_vocabulary
from tfrecord_builder import errors

_TOKENIZER = "tokenizer.json"
_TOKEN_TYPES = ("syllable", "toneless")  # token types with one token per character
_ADVICE = (
    "pass the same directory as in encode --weights: a multilingual Whisper model as published, with "
    "config.json, model.safetensors and tokenizer.json"
)


def compile_decoder(
    path: str, acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory
) -> types.SimpleNamespace:
    """Reads a published decoder, and selects the tokens that spell the language model's characters.

    Returns a namespace with the fields in decoding_files.WHISPER_FIELDS, and `weights` (float16).

    Raises errors.UserError if a file is missing or damaged, the token type is not supported, or the acoustic
    model does not read the last block of the encoder that was published with the decoder.
    """
    encoder = _check(path, acoustic)
    characters, readings = _list_readings(acoustic, language)
    decoder, values = encoder_weights.read_decoder(path)
    file = os.path.join(path, _TOKENIZER)
    try:
        tokenizer = whisper_vocabulary.read(file)
        spelling = whisper_vocabulary.spell(tokenizer, characters)
        if max(*tokenizer.ids.values(), *tokenizer.prompt_ids, tokenizer.end_id) >= decoder.num_tokens:
            raise ValueError(f"it has token ids beyond the decoder's {decoder.num_tokens} tokens")
    except (OSError, ValueError, KeyError) as error:
        raise errors.UserError(f"{file}: cannot be read ({error}); {_ADVICE}") from error
    table = values["embeddings"]
    values["embeddings"] = table[[*spelling.token_ids, tokenizer.end_id]]
    values["prompt"] = table[tokenizer.prompt_ids]
    weights = {name: np.float16(value) for name, value in values.items()}
    fields = spelling._asdict() | {"characters": np.array(characters), "readings": readings}
    del fields["token_ids"]
    for name, model in (("tokens", acoustic), ("characters", language), ("readings", language)):
        fields[f"{name}_sha256"] = getattr(model.config, f"{name}_sha256")
    fields |= {"heads": decoder.heads, "layers": decoder.layers, "encoder_sha256": encoder.sha256}
    return types.SimpleNamespace(weights=weights, **fields)


def _check(path, acoustic):
    if acoustic.config.token_type not in _TOKEN_TYPES:
        raise errors.UserError(
            f"{acoustic.path}: token type is {acoustic.config.token_type}, expected one of "
            f"{', '.join(_TOKEN_TYPES)}, because Whisper's decoder needs one token per character; omit "
            "--whisper_decoder"
        )
    applied = acoustic.config.frontend.encoder
    is_whisper = applied is not None and applied.encoder.family == "whisper"
    if not is_whisper or applied.layers[-1] != applied.encoder.layers:
        blocks = applied and f"blocks {','.join(map(str, applied.layers))} of a {applied.encoder.family}"
        raise errors.UserError(
            f"{acoustic.path}: the model reads {f'{blocks} encoder' if blocks else 'audio features'}, but "
            "the decoder needs the outputs of the last block of Whisper's encoder; include this "
            "block in encode --layers, and train again"
        )
    stored, _ = encoder_weights.read(path)
    if stored != applied.encoder:
        raise errors.UserError(
            f"{path}: the sha256 of the encoder is {stored.sha256[:12]}, expected "
            f"{applied.encoder.sha256[:12]} as in {acoustic.path}; {_ADVICE}"
        )
    return stored


def _list_readings(acoustic, language) -> tuple[list[str], np.ndarray]:
    """Returns the characters that have readings, and the token ids of their readings.

    The ids are int32 [num_characters, max_readings], padded with -1. A letter or digit that is a token is its
    own reading. Letters are returned as capitals, because that is how Whisper writes single letters.
    """
    token_ids: dict[str, set[int]] = {}
    are_capitals = acoustic.config.token_type == "toneless"  # letters are capitals, as a and e are syllables
    for token_id, token in enumerate(acoustic.tokens.tokens[1:], 1):
        is_spelled = token.isdigit() or token.isupper() == are_capitals
        letter = token if len(token) == 1 and is_spelled else ""
        for character in language.readings.pairs.get(token, letter).upper():
            token_ids.setdefault(character, set()).add(token_id)
    rows = np.full([len(token_ids), max(map(len, token_ids.values()), default=1)], -1, np.int32)
    for row, ids in zip(rows, token_ids.values()):
        row[: len(ids)] = sorted(ids)
    return list(token_ids), rows
