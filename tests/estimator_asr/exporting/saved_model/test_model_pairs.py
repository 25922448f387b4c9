"""Language models that can read the tokens of an acoustic model, and those that cannot."""

from __future__ import annotations

import types

import pytest

from estimator_asr.exporting.saved_model import model_pairs
from tfrecord_builder import errors


@pytest.mark.parametrize(
    ("written", "read"),
    [("syllable", "toneless"), ("toneless", "syllable"), ("initial_final", "toneless"), ("bpe", "syllable")],
)
def test_language_model_of_another_token_type_is_refused(written, read):
    message = (
        f"export: --acoustic_model_dir=AM outputs {written} tokens, but "
        f"--language_model_dir=LM reads {read} tokens "
        r"\(token types that match: syllable with syllable, initial_final with syllable, toneless with "
        r"toneless\); omit the language model, or train both models on matching token types"
    )
    models = [
        types.SimpleNamespace(path=path, config=types.SimpleNamespace(token_type=token_type))
        for path, token_type in (("AM", written), ("LM", read))
    ]
    with pytest.raises(errors.UserError, match=message):
        model_pairs.check(*models, "export")
