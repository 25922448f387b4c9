import os
import shutil

import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import registry


def _list(corpus, *directories):
    return list(registry.list_utterances(corpus, [str(directory) for directory in directories]))


def test_recordings_and_transcripts(tmp_path):
    found = _list("aishell1", small_corpora.make_aishell1_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text) for u in found] == [
        ("BAC009S0002W0122", "S0002", "train", "而 对 楼市"),
        ("BAC009S0724W0121", "S0724", "dev", "广州市"),
        ("BAC009S0764W0121", "S0764", "test", ""),  # left to the checks, as is the next
        ("BAC009S9999W0001", "S9999", "test", "没有 录音"),
    ]
    assert found[0].audio == str(tmp_path / "wav" / "train" / "S0002" / "BAC009S0002W0122.wav")


def test_speakers_that_are_not_unpacked(tmp_path):
    small_corpora.make_aishell1_corpus(tmp_path)
    for speaker in ("train/S0002", "dev/S0724"):
        shutil.rmtree(tmp_path / "wav" / speaker)
    found = _list("aishell1", tmp_path)
    assert [(u.utterance_id, u.split) for u in found] == [
        ("BAC009S0764W0121", "test"),
        ("BAC009S0002W0122", "train"),
        ("BAC009S0724W0121", "dev"),
        ("BAC009S9999W0001", "test"),
    ]
    assert found[1].audio == str(tmp_path / "wav" / "train" / "S0002" / "BAC009S0002W0122.wav")
    assert not os.path.exists(found[1].audio)


def test_speakers_at_the_borders_of_the_splits(tmp_path):
    small_corpora.make_aishell1_corpus(tmp_path)
    names = {"S0723": "train", "S0724": "dev", "S0763": "dev", "S0764": "test"}
    transcript = "".join(f"BAC009{speaker}W0999 没有 录音\n" for speaker in names)
    small_corpora.write_text(tmp_path / "transcript" / "aishell_transcript_v0.8.txt", transcript)
    assert {u.speaker: u.split for u in _list("aishell1", tmp_path) if u.text} == names


def test_incomplete(tmp_path):
    with pytest.raises(errors.UserError, match="aishell_transcript_v0.8.txt: file does not exist"):
        _list("aishell1", tmp_path)
    small_corpora.write_text(tmp_path / "transcript" / "aishell_transcript_v0.8.txt", "BAC009S0002W0122 而\n")
    with pytest.raises(
        errors.UserError, match="wav/train, wav/dev and wav/test are missing, expected AISHELL-1"
    ):
        _list("aishell1", tmp_path)


def test_with_archives_that_are_not_unpacked(tmp_path):
    small_corpora.make_aishell1_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "wav" / "S0724.tar.gz", "")
    assert len(_list("aishell1", tmp_path)) == 4
    small_corpora.write_text(tmp_path / "wav" / "S0003.tar.gz", "")
    with pytest.raises(
        errors.UserError, match=r"wav: 1 of 2 archives are not unpacked \(S0003.tar.gz is one\)"
    ):
        _list("aishell1", tmp_path)
