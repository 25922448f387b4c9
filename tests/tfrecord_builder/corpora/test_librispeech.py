import os

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import librispeech


def _list(corpus_dir):
    return list(librispeech.list_utterances(str(corpus_dir)))


def test_parts_and_chapters(tmp_path):
    found = _list(corpus_trees.make_librispeech_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text) for u in found] == [
        ("84-121123-0000", "84", "dev", "GO DO YOU HEAR"),
        ("367-130732-0000", "367", "test", "LOBSTERS AND LOBSTERS"),
        ("103-1240-0000", "103", "train", "CHAPTER ONE"),
        ("103-1240-0001", "103", "train", "THAT HAD ITS SOURCE"),  # without a recording
        ("103-1240-0002", "103", "train", ""),  # without a transcript
    ]
    chapter = tmp_path / "train-clean-100" / "103" / "1240"
    assert [u.audio for u in found[3:]] == [
        str(chapter / f"103-1240-{number}.flac") for number in ("0001", "0002")
    ]


def test_archives_and_hidden_files_are_ignored(tmp_path):
    corpus_trees.make_librispeech_corpus(tmp_path)
    for other in ("dev-clean.tar.gz", "test-other/.DS_Store", "test-other/367/._130732"):
        small_corpora.write_text(tmp_path / other, "")
    assert len(_list(tmp_path)) == 5


def test_line_ends_and_a_transcript_that_is_empty(tmp_path):
    corpus_trees.make_librispeech_corpus(tmp_path)
    path = tmp_path / "dev-clean" / "84" / "121123" / "84-121123.trans.txt"
    small_corpora.write_text(path, "\ufeff84-121123-0000 GO\r\n84-121123-0001\r\n\r\n")
    assert [(u.utterance_id, u.text) for u in _list(tmp_path)][:2] == [
        ("84-121123-0000", "GO"),
        ("84-121123-0001", ""),
    ]


def test_other_directories_and_a_chapter_without_its_transcript(tmp_path):
    corpus_trees.make_librispeech_corpus(tmp_path / "LibriSpeech")
    message = "train-clean-100, dev-clean and the like are missing, expected parts of LibriSpeech; pass"
    for other in (tmp_path, tmp_path / "LibriSpeech" / "dev-clean"):
        with pytest.raises(errors.UserError, match=message):
            _list(other)
    os.remove(tmp_path / "LibriSpeech" / "dev-clean" / "84" / "121123" / "84-121123.trans.txt")
    with pytest.raises(errors.UserError, match="84-121123.trans.txt: file does not exist; unpack"):
        _list(tmp_path / "LibriSpeech")
