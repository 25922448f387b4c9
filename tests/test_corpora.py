import os

import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import registry


def _list(corpus, *directories):
    return registry.list_utterances(corpus, [str(directory) for directory in directories])


def test_manifest(tmp_path):
    found = _list("manifest", small_corpora.make_manifest_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split) for u in found][-2:] == [
        ("u06", "a", "dev"),
        ("u07", "b", "dev"),
    ]
    assert found[0].audio == str(tmp_path / "audio" / "u00.wav")


def test_several_directories_tell_their_speakers_apart(tmp_path):
    first = small_corpora.make_manifest_corpus(tmp_path / "one", 1, 0, prefix="x")
    second = small_corpora.make_manifest_corpus(tmp_path / "two", 1, 0, prefix="y")
    assert [(u.utterance_id, u.speaker) for u in _list("manifest", first, second)] == [
        ("x00", "one/a"),
        ("y00", "two/a"),
    ]


def test_an_id_in_two_directories_is_refused(tmp_path):
    first = small_corpora.make_manifest_corpus(tmp_path / "one", 1, 0)
    second = small_corpora.make_manifest_corpus(tmp_path / "two", 1, 0)
    with pytest.raises(errors.UserError, match="--corpus_dir: the utterance id u00 is there twice"):
        _list("manifest", first, second)


def test_text(tmp_path):
    found = _list("text", small_corpora.make_text_corpus(tmp_path / "news"))
    assert [u.utterance_id for u in found] == ["news-train-2", "news-train-3", "news-train-4", "news-dev-2"]
    assert {u.speaker for u in found} == {"news"}
    assert (found[1].audio, found[1].text, found[1].pinyin) == (None, "谢谢", "xie4 xie5")


def test_text_without_files_or_columns(tmp_path):
    with pytest.raises(errors.UserError, match="holds no text corpus, expected train.tsv"):
        _list("text", tmp_path)
    small_corpora.write_text(tmp_path / "dev.tsv", "hanzi\n你\n")
    with pytest.raises(errors.UserError, match="dev.tsv: its header line has hanzi, expected also pinyin"):
        _list("text", tmp_path)


def test_thchs30(tmp_path):
    found = _list("thchs30", small_corpora.make_thchs30_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split) for u in found] == [
        ("A11_0", "A11", "train"),
        ("B6_250", "B6", "dev"),
        ("D4_750", "D4", "test"),
    ]
    assert found[0].audio == str(tmp_path / "data" / "A11_0.wav")
    assert (found[0].text, found[0].pinyin) == ("绿 是 阳春", "lv4 shi4 yang2 chun1")


def test_thchs30_with_transcripts_in_place_of_paths(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    small_corpora.write_audio(tmp_path / "dev" / "B6_250.wav", small_corpora.tone(0.5))
    small_corpora.write_text(tmp_path / "dev" / "B6_250.wav.trn", "好\nhao3\nh ao3\n")
    (found,) = [u for u in _list("thchs30", tmp_path) if u.split == "dev"]
    assert (found.text, found.audio) == ("好", str(tmp_path / "dev" / "B6_250.wav"))


def test_thchs30_incomplete(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path)
    os.remove(tmp_path / "data" / "D4_750.wav.trn")
    with pytest.raises(errors.UserError, match="D4_750.wav.trn: there is no such file"):
        _list("thchs30", tmp_path)
    small_corpora.write_text(tmp_path / "data" / "D4_750.wav.trn", "好\n")
    with pytest.raises(
        errors.UserError, match="D4_750.wav.trn: it has 1 lines, expected hanzi, pinyin and phones"
    ):
        _list("thchs30", tmp_path)
    with pytest.raises(errors.UserError, match="test is missing, expected data, train, dev and test"):
        os.remove(tmp_path / "test" / "D4_750.wav.trn")
        os.rmdir(tmp_path / "test")
        _list("thchs30", tmp_path)


def test_aishell1(tmp_path):
    found = _list("aishell1", small_corpora.make_aishell1_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text) for u in found] == [
        ("BAC009S0002W0122", "S0002", "train", "而 对 楼市"),
        ("BAC009S0724W0121", "S0724", "dev", "广州市"),
        ("BAC009S0764W0121", "S0764", "test", ""),  # left to the checks
    ]
    assert found[0].audio == str(tmp_path / "wav" / "train" / "S0002" / "BAC009S0002W0122.wav")


def test_aishell1_incomplete(tmp_path):
    with pytest.raises(errors.UserError, match="aishell_transcript_v0.8.txt: there is no such file"):
        _list("aishell1", tmp_path)
    small_corpora.write_text(tmp_path / "transcript" / "aishell_transcript_v0.8.txt", "BAC009S0002W0122 而\n")
    with pytest.raises(errors.UserError, match="there is no recording wav/train/Sxxxx"):
        _list("aishell1", tmp_path)


def test_missing_directory(tmp_path):
    with pytest.raises(errors.UserError, match="--corpus_dir: there is no directory .*/nowhere"):
        _list("manifest", tmp_path / "nowhere")
