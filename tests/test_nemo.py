import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import nemo


def _list(corpus_dir):
    return list(nemo.list_utterances(str(corpus_dir)))


def test_manifests(tmp_path):
    found = _list(corpus_trees.make_nemo_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text, u.pinyin) for u in found] == [
        ("dev-1-c", "2", "dev", "谢谢", "xie4 xie5"),
        ("train_manifest-1-a", "", "train", "今天天气很好", ""),
        ("train_manifest-2-b", "s1", "train", "你好", ""),
    ]
    assert [(u.start_seconds, u.seconds) for u in found] == [(0.0, None), (0.0, None), (0.25, 0.5)]
    assert found[1].audio == str(tmp_path / "wav" / "a.wav")


def test_names_of_manifests(tmp_path):
    line = (
        '\ufeff{"audio_filepath": "/in/a.wav"}\r\n\r\n{"audio_filepath": "s3://in/a.wav", "text": null}\r\n'
    )
    for name in ("train_clean.json", "test.json", "dev-other.jsonl", "trainer.json", "tarred_train.json"):
        small_corpora.write_text(tmp_path / name, line)
    assert [(u.utterance_id, u.split, u.audio, u.text) for u in _list(tmp_path)] == [
        ("dev-other-1-a", "dev", "/in/a.wav", ""),
        ("dev-other-3-a", "dev", "s3://in/a.wav", ""),
        ("test-1-a", "test", "/in/a.wav", ""),
        ("test-3-a", "test", "s3://in/a.wav", ""),
        ("train_clean-1-a", "train", "/in/a.wav", ""),
        ("train_clean-3-a", "train", "s3://in/a.wav", ""),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", r"train.json: line 1: '\[\]' is no JSON object"),
        ('{"text": "好"}', "line 1: audio_filepath is missing, expected text"),
        ('{"audio_filepath": ["a.wav"]}', r"line 1: audio_filepath is \['a.wav'\], expected text"),
        (
            '{"audio_filepath": "a.wav", "offset": "1"}',
            "line 1: offset is '1', expected seconds of 0 or more",
        ),
        ('{"audio_filepath": "a.wav", "duration": -1}', "line 1: duration is -1, expected seconds"),
        ('{"audio_filepath": "a.wav", "text": {}}', "line 1: text is {}, expected text"),
    ],
)
def test_lines_that_are_none(tmp_path, line, message):
    small_corpora.write_text(tmp_path / "train.json", line)
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_other_directories(tmp_path):
    small_corpora.write_text(tmp_path / "manifest.json", "{}")
    with pytest.raises(
        errors.UserError, match="it has no NeMo manifest, expected train.json, train_manifest.json"
    ):
        _list(tmp_path)
