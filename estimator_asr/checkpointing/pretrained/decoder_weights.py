"""Whisper's decoder for an acoustic and a language model: its weights, and the vocabulary that they need."""

from __future__ import annotations

import os
import types

import numpy as np

from estimator_asr.checkpointing.pretrained import encoder_weights, whisper_vocabulary
from estimator_asr.experiment import model_directory
from tfrecord_builder import errors

_TOKENIZER = "tokenizer.json"
_TOKEN_TYPES = ("syllable", "toneless")  # one token for each character
_ADVICE = (
    "pass the directory that was --weights of encode: a multilingual Whisper with config.json, "
    "model.safetensors and tokenizer.json as published"
)


def compile_decoder(
    path: str, acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory
) -> types.SimpleNamespace:
    """Reads the decoder beside an encoder, and keeps what the characters of the language model need.

    Returns:
        The fields of whisper_decoder.DecoderArrays, weights as float16.

    Raises:
        errors.UserError: a file is missing or damaged, or the acoustic model does not read the last block of
            the encoder beside it.
    """
    encoder = _check(path, acoustic)
    characters, readings = _list_readings(acoustic, language)
    decoder, values = encoder_weights.read_decoder(path)
    file = os.path.join(path, _TOKENIZER)
    try:
        tokenizer = whisper_vocabulary.read(file)
        spelling = whisper_vocabulary.spell(tokenizer, characters)
        if max(*tokenizer.ids.values(), *tokenizer.prompt_ids, tokenizer.end_id) >= decoder.num_tokens:
            raise ValueError(f"it has more tokens than the {decoder.num_tokens} of the decoder")
    except (OSError, ValueError, KeyError) as error:
        raise errors.UserError(f"{file}: cannot be read ({error}); {_ADVICE}") from error
    table = values["embeddings"]
    values["embeddings"] = table[[*spelling.token_ids, tokenizer.end_id]]
    values["prompt"] = table[tokenizer.prompt_ids]
    weights = {name: np.float16(value) for name, value in values.items()}
    fields = {name: value for name, value in spelling._asdict().items() if name != "token_ids"}
    fields |= {"characters": np.array(characters), "readings": readings, "weights": weights}
    for name, model in (("tokens", acoustic), ("characters", language), ("readings", language)):
        fields[f"{name}_sha256"] = getattr(model.config, f"{name}_sha256")
    sizes = {"heads": decoder.heads, "layers": decoder.layers, "encoder_sha256": encoder.sha256}
    return types.SimpleNamespace(**sizes, **fields)


def _check(path, acoustic):
    if acoustic.config.token_type not in _TOKEN_TYPES:
        raise errors.UserError(
            f"{acoustic.path}: token type is {acoustic.config.token_type}, expected one of "
            f"{', '.join(_TOKEN_TYPES)} with Whisper's decoder, which reads a character as one; leave it out"
        )
    applied = acoustic.config.frontend.encoder
    is_whisper = applied is not None and applied.encoder.family == "whisper"
    if not is_whisper or applied.layers[-1] != applied.encoder.layers:
        blocks = applied and f"blocks {','.join(map(str, applied.layers))} of {applied.encoder.family}'s"
        raise errors.UserError(
            f"{acoustic.path}: reads {blocks or 'audio features'}, expected the last block of Whisper's "
            "encoder, which the decoder reads; encode the data with it, and train again"
        )
    stored, _ = encoder_weights.read(path)
    if stored != applied.encoder:
        raise errors.UserError(
            f"{path}: encoder has sha256 {stored.sha256[:12]}, expected {applied.encoder.sha256[:12]}, on "
            f"which {acoustic.path} stands; {_ADVICE}"
        )
    return stored


def _list_readings(acoustic, language) -> tuple[list[str], np.ndarray]:
    """Returns the characters that can be spoken, and int32 [num_characters, max_readings], -1 as padding.

    Letters and digits can be tokens too. Letters are capitals: so Whisper writes single ones.
    """
    spoken: dict[str, set[int]] = {}
    are_capitals = acoustic.config.token_type == "toneless"  # as tokens; a small letter is a syllable
    for token_id, token in enumerate(acoustic.tokens.tokens[1:], 1):
        is_spelled = token.isdigit() or token.isupper() == are_capitals
        letter = token if len(token) == 1 and is_spelled else ""
        for character in language.readings.pairs.get(token, letter).upper():
            spoken.setdefault(character, set()).add(token_id)
    rows = np.full([len(spoken), max(map(len, spoken.values()), default=1)], -1, np.int32)
    for row, ids in zip(rows, spoken.values()):
        row[: len(ids)] = sorted(ids)
    return list(spoken), rows
