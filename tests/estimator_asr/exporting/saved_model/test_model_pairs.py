"""Models that fit together are accepted, and other combinations are refused."""

import types

import pytest

from estimator_asr.exporting.saved_model import model_pairs
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary


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


def make_model(path, token_type, characters):
    known = vocabulary.Vocabulary.build(characters)
    return types.SimpleNamespace(
        path=path,
        config=types.SimpleNamespace(token_type=token_type),
        characters=known,
        output_vocabulary=known,
    )


def test_marks_need_characters():
    punctuation = make_model("PM", "", "你好")
    message = (
        "^tune: --punctuation_model_dir=PM reads characters, but without a language model the transcripts "
        "consist of syllable tokens; pass --language_model_dir$"
    )
    with pytest.raises(errors.UserError, match=message):
        model_pairs.check_punctuation(make_model("AM", "syllable", "你"), None, punctuation, "tune")
    model_pairs.check_punctuation(make_model("AM", "character", "你"), None, punctuation, "tune")


def test_a_punctuation_model_of_another_language_is_refused():
    language = make_model("LM", "syllable", "你好")
    message = (
        "^export: --punctuation_model_dir=PM knows none of the 2 characters of the transcripts; train it on "
        "text of the same language$"
    )
    with pytest.raises(errors.UserError, match=message):
        model_pairs.check_punctuation(None, language, make_model("PM", "", "abc"), "export")


def test_many_unknown_characters_are_a_warning(caplog):
    language, punctuation = make_model("LM", "syllable", "你好吗"), make_model("PM", "", "你好")
    with caplog.at_level("WARNING"):
        model_pairs.check_punctuation(None, language, punctuation, "export")
    assert caplog.messages == [
        "PM does not know 1 of the 3 characters of the transcripts (吗) and reads them as <unk>; train it on "
        "more text"
    ]
