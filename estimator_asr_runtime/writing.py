"""Converts tokens to the text of a transcript; without a language model, the text is the tokens.

Equivalent to convert in estimator_asr/exporting/saved_model/cascade.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr_runtime import backends, character_search
from estimator_asr_runtime import model as model_lib


class Written(NamedTuple):
    """The strings of one hypothesis, one for each token."""

    strings: tuple[str, ...]
    score: np.float32  # log probability of the characters, plus n-gram scores; 0 without a language model
    probs: np.ndarray  # float32 [num_tokens], probability of each string given its token


def write(model: model_lib.Model, sentences: Sequence[Sequence[str]]) -> list[Written]:
    """Returns the strings for the tokens of each hypothesis."""
    if model.language is None:
        return [Written(tuple(row), np.float32(0), np.ones(len(row), np.float32)) for row in sentences]
    best = _find_characters(model, sentences)
    spellings = []
    for tokens, characters, score, probs in zip(sentences, *best):
        probs = probs[: len(tokens)].copy()
        strings = [model.characters[index] if index >= 0 else "" for index in characters[: len(tokens)]]
        for place, token in enumerate(tokens):
            foreign = _keep_foreign(model, token)
            if foreign is not None:
                strings[place], probs[place] = foreign, 1.0
        spellings.append(Written(tuple(strings), score, probs))
    return spellings


def _find_characters(model: model_lib.Model, sentences) -> character_search.Sentences:
    ids = [[model.language_ids.get(token, model_lib.UNKNOWN_ID) for token in row] for row in sentences]
    outputs = backends.run_on_sequences(model.language, ids)
    lattice = character_search.Lattice(outputs["characters"], outputs["log_probs"])
    num_tokens = np.array(list(map(len, ids)), np.int32)
    if model.language_ngram is None:
        best = character_search.take_first(lattice, num_tokens)
    else:
        width = model.settings.language.beam_width
        best = character_search.search(lattice, num_tokens, model.language_ngram, width)
    is_real = np.arange(lattice.log_probs.shape[1]) < num_tokens[:, None]
    is_bad = np.any(is_real & ~np.all(lattice.log_probs < np.inf, axis=2), axis=1)
    return best._replace(scores=np.where(is_bad, np.float32(np.nan), best.scores))


def _keep_foreign(model: model_lib.Model, token: str) -> Optional[str]:
    """Returns a token's text if it is not a syllable and the language model lacks it, otherwise None."""
    is_unknown = model.language_ids.get(token, model_lib.UNKNOWN_ID) == model_lib.UNKNOWN_ID
    if not is_unknown or re.fullmatch(model.settings.syllable_pattern, token):
        return None
    # Toneless models have Latin letters in upper case; transcripts have them in lower case.
    return token.lower() if model.settings.token_type == "toneless" else token
