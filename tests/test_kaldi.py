import os
import shutil

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import kaldi


def _list(corpus_dir):
    return list(kaldi.list_utterances(str(corpus_dir)))


def test_segments(tmp_path):
    found = [u for u in _list(corpus_trees.make_kaldi_corpus(tmp_path)) if u.split == "train"]
    assert [(u.utterance_id, u.speaker, u.text, u.start_seconds, u.seconds, u.channel) for u in found] == [
        ("s1-1", "s1", "HI UM YEAH", 0.0, 0.5, None),
        ("s1-2", "s1", "你好", 0.5, None, None),  # to the end
        ("s2-1", "s2", "谢谢", 0.25, 0.5, 1),
    ]
    assert {u.audio for u in found} == {str(tmp_path / "wav" / "sw1.wav")}


def test_whole_recordings(tmp_path):
    found = [u for u in _list(corpus_trees.make_kaldi_corpus(tmp_path)) if u.split == "dev"]
    assert [(u.utterance_id, u.speaker, u.text, u.start_seconds, u.seconds) for u in found] == [
        ("d1", "s3", "好", 0.0, None),
        ("d2", "s3", "", 0.0, None),  # left to the checks, as is the next
        ("d3", "s4", "没有 录音", 0.0, None),
    ]
    assert [os.path.exists(u.audio) for u in found] == [True, True, False]
    assert found[2].audio == str(tmp_path / "dev" / "wav.scp" / "d3")


def test_a_data_directory_by_itself_is_train(tmp_path):
    found = _list(os.path.join(corpus_trees.make_kaldi_corpus(tmp_path), "dev"))
    shutil.copytree(tmp_path / "train", tmp_path / "dev" / "test")  # what lies below it is not read
    assert _list(tmp_path / "dev") == found
    assert [(u.utterance_id, u.split) for u in found] == [("d1", "train"), ("d2", "train"), ("d3", "train")]


def test_byte_order_mark_line_ends_tabs_and_blanks_in_a_path(tmp_path):
    small_corpora.write_text(tmp_path / "wav.scp", "\ufeffu1\t/in/my speech.wav\r\n\r\nu2 s3://in/b.wav\r\n")
    small_corpora.write_text(tmp_path / "text", "\ufeffu1 你 好\r\nu2 \r\n")
    small_corpora.write_text(tmp_path / "utt2spk", "u1 s1\r\n")
    assert [(u.audio, u.speaker, u.text) for u in _list(tmp_path)] == [
        ("/in/my speech.wav", "s1", "你 好"),
        ("s3://in/b.wav", "", ""),
    ]


@pytest.mark.parametrize(
    "value", ["sph2pipe -f wav sw1.sph |", "touch {} |", "cat a.wav|", "raw/a.ark:17", ""], ids=range(5)
)
def test_commands_and_archives_are_refused(tmp_path, value):
    corpus_trees.make_kaldi_corpus(tmp_path)
    value = value.format(tmp_path / "was_run")
    small_corpora.write_text(tmp_path / "dev" / "wav.scp", f"d1 /in/a.wav\nd2 {value}\n")
    message = "dev/wav.scp: line 2: d2 is .*, expected the path of an audio file; commands are not run"
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)
    assert not (tmp_path / "was_run").exists()


@pytest.mark.parametrize("name", ["wav.scp", "segments", "text", "utt2spk"])
def test_a_key_that_is_there_twice(tmp_path, name):
    corpus_trees.make_kaldi_corpus(tmp_path)
    with open(tmp_path / "train" / name, encoding="utf-8") as file:
        first, *others = file.readlines()
    small_corpora.write_text(tmp_path / "train" / name, "".join([first, *others, first]))
    key, line = first.split()[0], len(others) + 2
    with pytest.raises(
        errors.UserError, match=f"train/{name}: line {line}: {key} is there twice, expected once; remove one"
    ):
        _list(tmp_path)


@pytest.mark.parametrize(
    "segment",
    [
        "sw1 0.0",
        "sw2 0.0 1.0",
        "sw1 1.0 1.0",
        "sw1 1.0 0.5",
        "sw1 -0.5 1.0",
        "sw1 0.0 -2",
        "sw1 nan 1.0",
        "sw1 0 inf",
        "sw1 0.0 1.0 A",
        "sw1 0 1 0 0",
        f"sw1 0 {'9' * 400}",
        "",
    ],
)
def test_segments_that_are_none(tmp_path, segment):
    corpus_trees.make_kaldi_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "train" / "segments", f"\ns1-1 {segment}\n")
    message = (
        "train/segments: line 2: it is '.*' for a segment, expected a recording of wav.scp, its begin and"
    )
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_small_numbers_as_python_writes_them(tmp_path):
    corpus_trees.make_kaldi_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "train" / "segments", "s1-1 sw1 5e-05 2\n")
    (found, *_) = _list(tmp_path)
    assert (found.start_seconds, found.seconds) == (0.00005, 1.99995)


def test_directories_that_are_not_whole(tmp_path):
    with pytest.raises(
        errors.UserError, match="it has no wav.scp, nor has train, dev or test in it, expected a K"
    ):
        _list(tmp_path)
    for name in ("utt2spk", "text"):
        corpus_trees.make_kaldi_corpus(tmp_path)
        os.remove(tmp_path / "train" / name)
        with pytest.raises(
            errors.UserError, match=f"train/{name}: there is no such file, expected one; pass a wh"
        ):
            _list(tmp_path)
