"""Whether a language model reads what an acoustic model writes."""

from __future__ import annotations

import re

from absl import logging

from estimator_asr.experiment import model_directory
from estimator_asr.saved_model import export_info
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
    written, read = acoustic.config.token_type, language.config.token_type
    if _READ_TOKEN_TYPES.get(written) != read:
        readers = [f"{reader} for {token_type}" for token_type, reader in _READ_TOKEN_TYPES.items()]
        raise errors.UserError(
            f"{program}: --acoustic_model_dir={acoustic.path} writes token type {written} and "
            f"--language_model_dir={language.path} reads token type {read}, expected {', '.join(readers)}; "
            "leave the language model out, or train both on matching token types"
        )
    spoken = set(acoustic.tokens.tokens[1:])
    if written == read and spoken.isdisjoint(language.tokens.tokens):
        raise errors.UserError(
            f"{program}: --language_model_dir={language.path} knows none of the {len(spoken)} tokens of "
            f"--acoustic_model_dir={acoustic.path} ({errors.list_examples(spoken)} against "
            f"{errors.list_examples(language.tokens.tokens[1:])}); train both on the same token type"
        )
    if acoustic.whisper is not None:
        want = {name: getattr(language.config, f"{name}_sha256") for name in ("characters", "readings")}
        where = f"{program}: Whisper's decoder of {acoustic.path}"
        model_directory.check_whisper(where, acoustic.whisper, want, language.path)
    unread = find_unread(acoustic, language)
    if unread.tokens:
        logging.warning("%s", unread.describe(language.path, acoustic.path))


def find_unread(
    acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory
) -> export_info.UnreadTokens:
    """Returns the syllables of the acoustic model that the language model lacks.

    Of initials and finals, whose syllables are not listed anywhere, there are none.
    """
    spoken = set(acoustic.tokens.tokens[1:])
    pattern = SYLLABLES[language.config.token_type]
    unread = spoken.difference(language.tokens.tokens) if acoustic.config.token_type in SYLLABLES else ()
    return export_info.UnreadTokens(
        tuple(sorted(each for each in unread if re.fullmatch(pattern, each))), len(spoken)
    )
