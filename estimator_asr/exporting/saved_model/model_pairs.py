"""Checks that the models of an export fit together: each one reads the output of the one before it."""

from __future__ import annotations

import re
from typing import Optional

from absl import logging

from estimator_asr.experiment import model_directory
from estimator_asr.exporting.saved_model import export_info
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary

# Syllable pattern for each token type. Unknown syllables are read as <unk>; other unknown tokens are copied.
SYLLABLES = {
    token_type: f"{pattern}|{re.escape(vocabulary.UNKNOWN)}"
    for token_type, pattern in (("syllable", "[a-zê]+[1-5]"), ("toneless", "[a-zê]+"))
}
# Maps an acoustic model's token type to the token type of language models that can read its output. Initials
# and finals are first joined into syllables.
_READ_TOKEN_TYPES = {"syllable": "syllable", "initial_final": "syllable", "toneless": "toneless"}
_MOST_UNREAD = 0.1  # fraction of the characters that a punctuation model may lack without a warning


def check(
    acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory, program: str
) -> None:
    """Logs a warning if the language model lacks syllables of the acoustic model.

    Raises errors.UserError, whose message begins with `program`, if the token types do not match, the models
    have no token in common, or Whisper's decoder does not have the language model's characters and readings.
    """
    output_type, input_type = acoustic.config.token_type, language.config.token_type
    if _READ_TOKEN_TYPES.get(output_type) != input_type:
        pairs = [f"{token_type} with {reader}" for token_type, reader in _READ_TOKEN_TYPES.items()]
        raise errors.UserError(
            f"{program}: --acoustic_model_dir={acoustic.path} outputs {output_type} tokens, but "
            f"--language_model_dir={language.path} reads {input_type} tokens (token types that match: "
            f"{', '.join(pairs)}); omit the language model, or train both models on matching token types"
        )
    tokens = set(acoustic.tokens.tokens[1:])
    if output_type == input_type and tokens.isdisjoint(language.tokens.tokens):
        raise errors.UserError(
            f"{program}: --language_model_dir={language.path} has none of the {len(tokens)} tokens of "
            f"--acoustic_model_dir={acoustic.path} ({errors.list_examples(language.tokens.tokens[1:])} "
            f"instead of {errors.list_examples(tokens)}); train both models on the same tokens"
        )
    if acoustic.whisper is not None:
        want = {name: getattr(language.config, f"{name}_sha256") for name in ("characters", "readings")}
        where = f"{program}: Whisper's decoder of {acoustic.path}"
        model_directory.check_whisper(where, acoustic.whisper, want, language.path)
    unread = find_unread(acoustic, language)
    if unread.tokens:
        logging.warning("%s", unread.describe(language.path, acoustic.path))


def check_punctuation(
    acoustic: model_directory.ModelDirectory,
    language: Optional[model_directory.ModelDirectory],
    punctuation: model_directory.ModelDirectory,
    program: str,
) -> None:
    """Logs a warning if the punctuation model lacks many characters that transcripts may contain.

    Raises errors.UserError, whose message begins with `program`, if transcripts do not consist of characters,
    or the punctuation model knows none of the characters.
    """
    if not language and acoustic.config.token_type != "character":
        raise errors.UserError(
            f"{program}: --punctuation_model_dir={punctuation.path} reads characters, but without a language "
            f"model the transcripts consist of {acoustic.config.token_type} tokens; pass --language_model_dir"
        )
    characters = set((language or acoustic).output_vocabulary.tokens[1:]) - {vocabulary.SPACE}
    unread = characters.difference(punctuation.characters.tokens)
    if unread == characters:
        raise errors.UserError(
            f"{program}: --punctuation_model_dir={punctuation.path} knows none of the {len(characters)} "
            "characters of the transcripts; train it on text of the same language"
        )
    if len(unread) > _MOST_UNREAD * len(characters):
        logging.warning(
            "%s does not know %s of the %s characters of the transcripts (%s) and reads them as <unk>; "
            "train it on more text",
            punctuation.path,
            f"{len(unread):,}",
            f"{len(characters):,}",
            errors.list_examples(sorted(unread)),
        )


def find_unread(
    acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory
) -> export_info.UnreadTokens:
    """Returns the acoustic model's syllables that the language model lacks.

    For initials and finals, no tokens are returned, because their syllables are not listed anywhere.
    """
    tokens = set(acoustic.tokens.tokens[1:])
    pattern = SYLLABLES[language.config.token_type]
    unread = tokens.difference(language.tokens.tokens) if acoustic.config.token_type in SYLLABLES else ()
    return export_info.UnreadTokens(
        tuple(sorted(token for token in unread if re.fullmatch(pattern, token))), len(tokens)
    )
