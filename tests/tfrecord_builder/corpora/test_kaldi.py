import os
import shutil

import corpus_trees
import kaldiio
import numpy as np
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.building import sharding
from tfrecord_builder.corpora import kaldi, segments


def _list(corpus_dir):
    return list(kaldi.list_utterances(str(corpus_dir)))


def test_segments(tmp_path):
    found = [u for u in _list(corpus_trees.make_kaldi_corpus(tmp_path)) if u.split == "train"]
    assert [(u.utterance_id, u.speaker, u.text, u.start_seconds, u.seconds, u.channel) for u in found] == [
        ("s1-1", "s1", "HI UM YEAH", 0.0, 0.5, None),
        ("s1-2", "s1", "你好", 0.5, None, None),  # up to the end of the recording
        ("s2-1", "s2", "谢谢", 0.25, 0.5, 1),
    ]
    assert {u.audio for u in found} == {str(tmp_path / "wav" / "sw1.wav")}


def test_whole_recordings(tmp_path):
    found = [u for u in _list(corpus_trees.make_kaldi_corpus(tmp_path)) if u.split == "dev"]
    assert [(u.utterance_id, u.speaker, u.text, u.start_seconds, u.seconds) for u in found] == [
        ("d1", "s3", "好", 0.0, None),
        ("d2", "s3", "", 0.0, None),
        ("d3", "s4", "没有 录音", 0.0, None),
    ]
    assert [os.path.exists(u.audio) for u in found] == [True, True, False]
    assert found[2].audio == str(tmp_path / "dev" / "wav.scp" / "d3")


def test_a_data_directory_by_itself_is_train(tmp_path):
    found = _list(os.path.join(corpus_trees.make_kaldi_corpus(tmp_path), "dev"))
    shutil.copytree(tmp_path / "train", tmp_path / "dev" / "test")  # not read
    assert _list(tmp_path / "dev") == found
    assert [(u.utterance_id, u.split) for u in found] == [("d1", "train"), ("d2", "train"), ("d3", "train")]


def test_byte_order_mark_line_ends_tabs_and_spaces_in_a_path(tmp_path):
    small_corpora.write_text(tmp_path / "wav.scp", "\ufeffu1\t/in/my speech.wav\r\n\r\nu2 s3://in/b.wav\r\n")
    small_corpora.write_text(tmp_path / "text", "\ufeffu1 你 好\r\nu2 \r\n")
    small_corpora.write_text(tmp_path / "utt2spk", "u1 s1\r\n")
    assert [(u.audio, u.speaker, u.text) for u in _list(tmp_path)] == [
        ("/in/my speech.wav", "s1", "你 好"),
        ("s3://in/b.wav", "", ""),
    ]


@pytest.mark.parametrize(
    "value", ["sox -n -t wav - synth 1 |", "touch {} |", "cat a.wav | flac -d -c - |", ""]
)
def test_other_commands_reject_their_utterances_and_are_not_run(tmp_path, value):
    corpus_trees.make_kaldi_corpus(tmp_path)
    value = value.format(tmp_path / "was_run")
    small_corpora.write_text(tmp_path / "dev" / "wav.scp", f"d1 /in/a.wav\nd2 {value}\n")
    small_corpora.write_text(tmp_path / "train" / "wav.scp", f"sw1 {value}\n")
    problems = {u.utterance_id: u.problem for u in _list(tmp_path)}
    reason = "wav.scp entry is not a file, file:offset or decoding command (cat, flac, sph2pipe, sox, ffmpeg)"
    assert problems.pop("d1") == problems.pop("d3") == ""
    assert problems == dict.fromkeys(("d2", "s1-1", "s1-2", "s2-1"), reason)
    assert not (tmp_path / "was_run").exists()


def test_files_of_decoding_commands_are_read(tmp_path):
    corpus_trees.make_kaldi_corpus(tmp_path)
    lines = ["d1 flac -c -d -s ../wav/d1.wav |", "d2 sph2pipe -f wav -p -c 2 ../wav/sw1.wav|"]
    small_corpora.write_text(tmp_path / "dev" / "wav.scp", "\n".join(lines))
    small_corpora.write_text(tmp_path / "train" / "wav.scp", "sw1 sph2pipe -f wav -c 2 /in/sw1.sph |\n")
    found = {u.utterance_id: u for u in _list(tmp_path)}
    assert os.path.samefile(found["d1"].audio, tmp_path / "wav" / "d1.wav")
    assert [found[name].channel for name in ("d1", "d2", "s1-1", "s2-1")] == [None, 1, 1, 1]
    assert (found["s1-2"].audio, found["s1-2"].start_seconds) == ("/in/sw1.sph", 0.5)


def test_a_channel_of_a_sphere_file(tmp_path):
    left, right = small_corpora.tone(0.5), small_corpora.tone(0.5, 300.0)
    path = tmp_path / "a.sph"
    small_corpora.write_audio(path, np.stack([left, right], axis=1), format="NIST", subtype="PCM_16")
    small_corpora.write_text(tmp_path / "wav.scp", "a sph2pipe -f wav -p -c 2 a.sph |\n")
    small_corpora.write_text(tmp_path / "text", "a 好\n")
    (found,) = _list(tmp_path)
    samples = audio_files.read_audio(found.audio, 16000, channel=found.channel)
    np.testing.assert_allclose(samples, right, atol=1e-4)


@pytest.mark.parametrize("write_function", ["wav", "soundfile"])
def test_archives_that_kaldiio_writes(tmp_path, write_function):
    waves = {name: small_corpora.tone(0.5, hz) for name, hz in (("u1", 300.0), ("u2", 500.0), ("u3", 800.0))}
    pairs = {name: (16000, (wave * 32767).astype(np.int16)) for name, wave in waves.items()}
    options = {} if write_function == "wav" else {"write_function": "soundfile"}
    kaldiio.save_ark(str(tmp_path / "wav.ark"), pairs, scp=str(tmp_path / "wav.scp"), **options)
    small_corpora.write_text(tmp_path / "text", "u1 好\nu2 你\nu3 我\n")
    found = _list(tmp_path)
    assert [u.audio.partition(":")[0] for u in found] == [str(tmp_path / "wav.ark")] * 3
    for utterance in found:
        samples = audio_files.read_audio(utterance.audio, 16000)
        np.testing.assert_allclose(samples, waves[utterance.utterance_id], atol=1e-4)
        assert sharding.file_signature(utterance.audio) == sharding.file_signature(str(tmp_path / "wav.ark"))
    assert len(audio_files.read_audio(found[1].audio, 16000, start_seconds=0.1, seconds=0.25)) == 4000


def test_splits_of_other_names(tmp_path):
    for name in ("Training", "valid", "eval"):
        small_corpora.write_text(tmp_path / name / "wav.scp", f"{name} /in/a.wav\n")
        small_corpora.write_text(tmp_path / name / "text", f"{name} 好\n")
    assert [(u.utterance_id, u.split, u.speaker) for u in _list(tmp_path)] == [
        ("Training", "train", ""),  # the speaker is empty, because there is no utt2spk
        ("valid", "dev", ""),
        ("eval", "test", ""),
    ]


@pytest.mark.parametrize("name", ["wav.scp", "segments", "text", "utt2spk"])
def test_a_duplicate_key_is_refused(tmp_path, name):
    corpus_trees.make_kaldi_corpus(tmp_path)
    with open(tmp_path / "train" / name, encoding="utf-8") as file:
        first, *others = file.readlines()
    small_corpora.write_text(tmp_path / "train" / name, "".join([first, *others, first]))
    message = f"line {len(others) + 2}: the id {first.split()[0]} is a duplicate; remove one"
    with pytest.raises(errors.UserError, match=f"train/{name}: {message}"):
        _list(tmp_path)


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ("sw1 0.0", "segment is 'sw1 0.0', expected a recording id from wav.scp, start and"),
        ("sw2 0.0 1.0", "segment is 'sw2 0.0 1.0', expected a recording"),
        ("sw1 0 1 0 0", "segment is 'sw1 0 1 0 0', expected a recording"),
        ("", "segment is '', expected a recording"),
        ("录音 0 1", "segment is '录音 0 1', expected a recording"),
        ("sw1 -0.5 1.0", "start is '-0.5', expected a number of seconds, 0 or more"),
        ("sw1 0.0 -2", "end is '-2', expected a number of seconds"),
        ("sw1 0.0 1.0 left", r"channel is 'left', expected A, B or a number"),
    ],
)
def test_invalid_segments_are_refused(tmp_path, segment, message):
    corpus_trees.make_kaldi_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "train" / "segments", f"\ns1-1 {segment}\n")
    with pytest.raises(errors.UserError, match=f"train/segments: line 2: {message}"):
        _list(tmp_path)


@pytest.mark.parametrize("segment", ["sw1 1.0 1.0", "sw1 1.0 0.5"])
def test_a_segment_without_length_is_rejected_alone(tmp_path, segment):
    corpus_trees.make_kaldi_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "train" / "segments", f"s1-1 {segment}\ns1-2 sw1 0 0.5 1\n")
    first, second = _list(tmp_path)[:2]
    assert (first.problem, second.problem) == (segments.EMPTY, "")
    assert (second.start_seconds, second.seconds, second.channel) == (0.0, 0.5, 1)


def test_times_in_exponent_notation_are_read(tmp_path):
    corpus_trees.make_kaldi_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "train" / "segments", "s1-1 sw1 5e-05 2\n")
    (found, *_) = _list(tmp_path)
    assert (found.start_seconds, found.seconds) == (0.00005, 1.99995)


def test_incomplete_directories_are_refused(tmp_path):
    message = r"found no wav.scp here or in train, dev or test \(or valid, .* pass a Kaldi data"
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)
    corpus_trees.make_kaldi_corpus(tmp_path)
    os.remove(tmp_path / "train" / "text")
    with pytest.raises(errors.UserError, match="train/text: file does not exist; pass a wh"):
        _list(tmp_path)
