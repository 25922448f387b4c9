import os

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import ljspeech


def test_the_normalised_transcript_takes_precedence(tmp_path):
    found = list(ljspeech.list_utterances(corpus_trees.make_ljspeech_corpus(tmp_path)))
    assert [(u.utterance_id, u.text, u.split) for u in found] == [
        ("LJ001-0007", '"printed", about fourteen fifty-five,', "train"),
        ("LJ001-0008", "has never been surpassed.", "train"),
    ]
    assert all(os.path.isfile(u.audio) for u in found)


def test_what_is_not_ljspeech_is_refused(tmp_path):
    with pytest.raises(
        errors.UserError, match="metadata.csv, wavs is missing, expected metadata.csv and wavs of"
    ):
        list(ljspeech.list_utterances(str(tmp_path)))
    (tmp_path / "wavs").mkdir()
    small_corpora.write_text(tmp_path / "metadata.csv", "file_name,transcription\n")
    message = (
        "metadata.csv: line 1 has 1 columns, expected 2 or 3 separated by .; .* read tables .* --corpus=table"
    )
    with pytest.raises(errors.UserError, match=message):
        list(ljspeech.list_utterances(str(tmp_path)))
