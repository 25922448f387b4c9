"""Opens models for evaluate, and compares recognised speech with the text as the corpus writes it."""

import pytest
import tiny_models

from estimator_asr.evaluation import recognised_split
from estimator_asr.experiment import task_spec
from estimator_asr.scoring import edit_distance
from estimator_asr_runtime import written_form
from tfrecord_builder.data import dataset_info

FORM = written_form.load()


def load_data(path):
    return {path: dataset_info.DatasetInfo.load(path)}


@pytest.mark.long
def test_the_vocabularies_of_a_cascade_are_characters_and_syllables(tiny_export):
    data = load_data(tiny_export.data_dir)
    found = recognised_split.open_version(tiny_export.version_dir, (), data)
    with found.recogniser.session:
        assert list(found.measures) == ["token_error_rate", "character_error_rate"]
        assert found.vocabularies.syllables == frozenset(tiny_models.TOKENS.tokens)
        # Tokens that are not syllables, such as letters, are copied to transcripts.
        assert found.vocabularies.characters == frozenset(
            tiny_models.TOKENS.tokens + tiny_models.CHARACTERS.tokens
        )
        assert found.language.run({"pinyin": [b"qi4 zi4"]})["transcript"] == ["气字"]


@pytest.mark.long
def test_the_vocabulary_of_an_acoustic_model_is_its_tokens(tiny_export):
    data = load_data(tiny_export.data_dir)
    found = recognised_split.open_model(tiny_export.acoustic_dir, None, data)
    with found.recogniser.session:
        assert list(found.measures) == ["token_error_rate"]
        assert found.vocabularies == (None, frozenset(tiny_models.TOKENS.tokens), "syllable")
        assert found.language is None


def test_a_language_model_reads_tokens(tmp_path):
    language = tiny_models.make_language_model(str(tmp_path / "lm"))
    data_dir = str(tmp_path / "text")
    tiny_models.make_data(data_dir, with_audio=False)
    found = recognised_split.open_model(language.path, None, load_data(data_dir))
    with found.recogniser.session:
        assert found.spec is task_spec.LANGUAGE
        assert list(found.measures) == ["character_error_rate"]
        assert "你" in found.vocabularies.characters and "犇" not in found.vocabularies.characters


def test_the_written_form_keeps_digits_and_drops_marks():
    outputs = recognised_split.add_written({"punctuated": "花了三十五元，对吗？"}, FORM)
    assert outputs == {"punctuated": "花了三十五元，对吗？", "written": "花了35元，对吗？"}
    record = {"utterance_id": b"u1", "speaker": b"S1", "written": "花了“35”元,是吗?".encode()}
    marked, form = recognised_split.compare_written(record, outputs)
    assert marked == ("u1", "S1", "花了35元，是吗？", "花了三十五元，对吗？")
    assert (form.reference, form.hypothesis) == ("花了35元是吗", "花了35元对吗")
    assert form.edits == edit_distance.Edits(1, 0, 0, 7)  # 对 instead of 是
    assert marked.is_speaker_known and form.speaker == "S1"


def test_an_existing_written_form_is_kept():
    outputs = {"punctuated": "三十五", "written": "卅五"}
    assert recognised_split.add_written(outputs, FORM) == outputs
