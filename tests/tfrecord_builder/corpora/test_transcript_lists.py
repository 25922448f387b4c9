import os
import shutil

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import registry


def _list(corpus, corpus_dir):
    return list(registry.CORPORA[corpus](str(corpus_dir)))


def test_aishell1_speakers_that_are_not_unpacked(tmp_path):
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


def test_aishell1_speakers_at_the_borders_of_the_splits(tmp_path):
    small_corpora.make_aishell1_corpus(tmp_path)
    names = {"S0723": "train", "S0724": "dev", "S0763": "dev", "S0764": "test"}
    transcript = "".join(f"BAC009{speaker}W0999 没有 录音\n" for speaker in names)
    small_corpora.write_text(tmp_path / "transcript" / "aishell_transcript_v0.8.txt", transcript)
    assert {u.speaker: u.split for u in _list("aishell1", tmp_path) if u.text} == names


def test_aishell1_with_archives_that_are_not_unpacked(tmp_path):
    small_corpora.make_aishell1_corpus(tmp_path)
    for name in ("S0724.tar.gz", "._S0004.tar.gz", "notes.txt"):
        small_corpora.write_text(tmp_path / "wav" / name, "")
    assert len(_list("aishell1", tmp_path)) == 4
    small_corpora.write_text(tmp_path / "wav" / "S0003.tar.gz", "")
    message = "wav: 1 of 2 archives are not unpacked, for example S0003.tar.gz"
    with pytest.raises(errors.UserError, match=message):
        _list("aishell1", tmp_path)


def test_aidatatang_200zh_a_recording_without_a_transcript(tmp_path):
    corpus_trees.make_aidatatang_200zh_corpus(tmp_path)
    path = tmp_path / "transcript" / "aidatatang_200_zh_transcript.txt"
    small_corpora.write_text(path, "\ufeffT0055G0013S0001 好 的\r\n\r\n")
    assert [u.text for u in _list("aidatatang_200zh", tmp_path)] == ["好 的", "", ""]


def test_aidatatang_200zh_speakers_that_are_not_unpacked(tmp_path):
    corpus_trees.make_aidatatang_200zh_corpus(tmp_path)
    train = tmp_path / "corpus" / "train"
    small_corpora.write_text(train / "G0013.tar.gz", "")
    assert len(_list("aidatatang_200zh", tmp_path)) == 5
    small_corpora.write_text(train / "G0014.tar.gz", "")
    message = r"corpus/train: 1 of 2 archives are not unpacked, for example G0014.tar.gz; unpack"
    with pytest.raises(errors.UserError, match=message):
        _list("aidatatang_200zh", tmp_path)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("女 nv3 儿 er2", ("女 儿", "nv3 er2")),
        ("我 wo3 爱 ai4 A ei1", ("我 爱 A", "")),  # a Latin letter is not paired with a syllable
        ("我 wo3 爱", ("我 爱", "")),
        ("你好 ni3 吗 ma5", ("你好 吗", "")),  # two hanzi, one syllable
        ("吗 ma 我 wo3", ("吗 ma 我", "")),
        ("", ("", "")),
    ],
)
def test_aishell3_lines_that_are_not_pairs(tmp_path, line, expected):
    corpus_trees.make_aishell3_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "test" / "content.txt", f"\ufeffSSB06930002.wav\t{line}\r\n")
    found = _list("aishell3", tmp_path)[-1]
    assert (found.utterance_id, found.text, found.pinyin) == ("SSB06930002", *expected)


def test_aishell3_a_recording_and_a_transcript_without_the_other(tmp_path):
    corpus_trees.make_aishell3_corpus(tmp_path)
    recordings = tmp_path / "train" / "wav" / "SSB0005"
    os.rename(recordings / "SSB00050001.wav", recordings / "SSB00050009.wav")
    found = [u for u in _list("aishell3", tmp_path) if u.split == "train"]
    assert [(u.utterance_id, u.text) for u in found] == [
        ("SSB00050002", "一 点儿"),
        ("SSB00050009", ""),
        ("SSB00050001", "广 州"),
    ]
    assert (found[2].audio, found[2].pinyin) == (str(recordings / "SSB00050001.wav"), "guang3 zhou1")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("[FIL]你好[SPK]谢谢", "你好 谢谢"),
        ("FIL你好SPK", "你好"),
        ("<NOISE> 你好 [ FIL ]", "你好"),
        ("[FIL]", ""),
        ("打开FILE和SPKR", "打开FILE和SPKR"),  # words that begin with FIL or SPK
        ("PROFIL和MSPK", "PROFIL和MSPK"),  # words that end with FIL or SPK
        ("你好，[今天]。", "你好，[今天]。"),
    ],
)
def test_magicdata_marks_are_removed(tmp_path, written, text):
    corpus_trees.make_magicdata_corpus(tmp_path)
    content = f"\ufeffUtteranceID\tSpeakerID\tTranscription\r\n15_2222_01.wav\t15_2222\t{written}\r\n"
    small_corpora.write_text(tmp_path / "test" / "TRANS.txt", content)
    assert _list("magicdata", tmp_path)[-1].text == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"file": "a.wav"}', "set1_transcript.json: .* is not a valid JSON list of objects"),
        ('[{"file": "a.wav"}, "b.wav"]', "set1_transcript.json: object 2: 'b.wav' is not a JSON object"),
        ('[{"file": "a.wav"}, {"text": "好"}]', "object 2: file is missing, expected text"),
    ],
)
def test_primewords_invalid_transcripts_are_refused(tmp_path, content, message):
    corpus_trees.make_primewords_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "set1_transcript.json", content)
    with pytest.raises(errors.UserError, match=message):
        _list("primewords", tmp_path)


def test_primewords_byte_order_mark_line_ends_and_an_entry_without_a_speaker(tmp_path):
    corpus_trees.make_primewords_corpus(tmp_path)
    content = '\ufeff[\r\n{"file": "00a1ca32.wav",\r\n "text": "好"}\r\n]\r\n'
    small_corpora.write_text(tmp_path / "set1_transcript.json", content)
    found = [(u.utterance_id, u.text, u.speaker) for u in _list("primewords", tmp_path)]
    assert found == [("00a1ca32", "好", ""), ("5732d955", "", "")]


def test_magicdata_splits_that_are_not_unpacked(tmp_path):
    corpus_trees.make_magicdata_corpus(tmp_path)
    shutil.rmtree(tmp_path / "train")
    assert {u.split for u in _list("magicdata", tmp_path)} == {"dev", "test"}
