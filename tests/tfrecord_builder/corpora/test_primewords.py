import os

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import primewords


def _list(corpus_dir):
    return list(primewords.list_utterances(str(corpus_dir)))


def test_recordings_then_transcripts_without_one(tmp_path):
    found = _list(corpus_trees.make_primewords_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.text, u.split) for u in found] == [
        ("00a1ca32", "7", "你好 谢谢", "train"),  # the first of two entries
        ("5732d955", "", "", "train"),  # its folder is not a speaker
        ("0eb1f442", "9", "没有录音", "train"),
    ]
    assert found[0].audio == str(tmp_path / "audio_files" / "0" / "00" / "00a1ca32.wav")
    assert found[2].audio == str(tmp_path / "audio_files" / "0" / "0e" / "0eb1f442.wav")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"file": "a.wav"}', "set1_transcript.json: .* is not a valid JSON list of objects"),
        ('[{"file": "a.wav"}, "b.wav"]', "set1_transcript.json: object 2: 'b.wav' is not a JSON object"),
        ('[{"file": "a.wav"}, {"text": "好"}]', "object 2: file is missing, expected text"),
    ],
)
def test_invalid_transcripts_are_refused(tmp_path, content, message):
    corpus_trees.make_primewords_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "set1_transcript.json", content)
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_byte_order_mark_line_ends_and_an_entry_without_a_speaker(tmp_path):
    corpus_trees.make_primewords_corpus(tmp_path)
    content = '\ufeff[\r\n{"file": "00a1ca32.wav",\r\n "text": "好"}\r\n]\r\n'
    small_corpora.write_text(tmp_path / "set1_transcript.json", content)
    found = [(u.utterance_id, u.text, u.speaker) for u in _list(tmp_path)]
    assert found == [("00a1ca32", "好", ""), ("5732d955", "", "")]


def test_other_directories(tmp_path):
    message = (
        "set1_transcript.json, audio_files is missing, expected set1_transcript.json and audio_files of "
        "Primewords Set 1; pass the directory primewords_md_2018_set1 itself."
    )
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)
    corpus_trees.make_primewords_corpus(tmp_path)
    os.remove(tmp_path / "set1_transcript.json")
    with pytest.raises(errors.UserError, match="set1_transcript.json is missing"):
        _list(tmp_path)
