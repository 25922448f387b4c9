"""Whether a language model reads what an acoustic model writes."""

from __future__ import annotations

import re

from absl import logging

from estimator_asr.experiment import model_directory
from tfrecord_builder import errors
from tfrecord_builder.tokens import vocabulary

# By token type: a token that a language model lacks is its <unk> if it looks like this; any other is written.
SYLLABLES = {
    token_type: f"{pattern}|{re.escape(vocabulary.UNKNOWN)}"
    for token_type, pattern in (("syllable", "[a-zê]+[1-5]"), ("toneless", "[a-zê]+"))
}
# Token type of an acoustic model to that of the language models that read its output; initials and finals are
# joined to syllables first.
_READ_TOKEN_TYPES = {"syllable": "syllable", "initial_final": "syllable", "toneless": "toneless"}


def check(
    acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory, program: str
) -> None:
    """Logs which tokens of the acoustic model the language model lacks.

    Raises:
        errors.UserError: their token types do not fit, or they share no token; names the program.
    """
    try:
        _check_token_types(acoustic, language)
        _check_shared_tokens(acoustic, language)
    except errors.UserError as error:
        raise errors.UserError(f"{program}: {error}") from None


def _check_token_types(
    acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory
) -> None:
    """Refuses a language model that does not read what the acoustic one writes."""
    written, read = acoustic.config.token_type, language.config.token_type
    if _READ_TOKEN_TYPES.get(written) != read:
        readers = [f"{reader} for {token_type}" for token_type, reader in _READ_TOKEN_TYPES.items()]
        raise errors.UserError(
            f"--acoustic_model_dir={acoustic.path} writes token type {written} and "
            f"--language_model_dir={language.path} reads token type {read}, expected {', '.join(readers)}; "
            "leave the language model out, or train both on matching token types"
        )


def _check_shared_tokens(
    acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory
) -> None:
    """Refuses a language model that knows no token of the acoustic one; warns if it lacks some syllables."""
    if acoustic.config.token_type != language.config.token_type:  # of syllables that initials and finals make
        return
    spoken = set(acoustic.tokens.tokens) - {vocabulary.UNKNOWN}
    pattern = SYLLABLES[language.config.token_type]
    missing = {each for each in spoken.difference(language.tokens.tokens) if re.fullmatch(pattern, each)}
    if spoken.isdisjoint(language.tokens.tokens):
        raise errors.UserError(
            f"--language_model_dir={language.path} knows none of the {len(spoken)} tokens of "
            f"--acoustic_model_dir={acoustic.path} ({_examples(spoken)} against "
            f"{_examples(language.tokens.tokens[1:])}); train both on the same token type"
        )
    if missing:
        message = (
            "%s lacks %d of the %d tokens of %s and reads them as <unk>: %s; wherever one is said, it writes "
            "any hanzi that fits its neighbours, whatever its sound; train it on text that has them"
        )
        logging.warning(message, language.path, len(missing), len(spoken), acoustic.path, _examples(missing))


def _examples(tokens) -> str:
    return ", ".join(sorted(tokens)[:5]) + (", ..." if len(tokens) > 5 else "")
