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
    assert [(u.start_seconds, u.seconds) for u in found] == [(0.0, 1.0), (0.0, 1.0), (0.25, 0.5)]
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


def test_a_duration_without_an_offset_begins_at_0(tmp_path):
    lines = [{"duration": 0.4}, {"duration": 0.4, "offset": 0}, {"offset": 0.3}, {}]
    content = corpus_trees.to_lines({"audio_filepath": "a.wav", **each} for each in lines)
    small_corpora.write_text(tmp_path / "train.json", content)
    assert [(u.start_seconds, u.seconds) for u in _list(tmp_path)] == [
        (0.0, 0.4),
        (0.0, 0.4),
        (0.3, None),
        (0.0, None),
    ]


def test_channels(tmp_path):
    selectors = [None, 0, 1, [1], "average", ["average"], [0, 1], [], -1, "1", True, 0.5]
    lines = ({"audio_filepath": "a.wav", "channel_selector": selector} for selector in selectors)
    small_corpora.write_text(tmp_path / "train.json", corpus_trees.to_lines(lines))
    found = _list(tmp_path)
    assert [u.channel for u in found[:6]] == [None, 0, 1, 1, None, None]
    assert [u.problem for u in found[:6]] == [""] * 6
    wanted = 'NeMo channel_selector other than a channel from 0, a list of one or "average"'
    assert [u.problem for u in found[6:]] == [wanted] * 6


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("valid", "dev"),
        ("validation_manifest", "dev"),
        ("val.clean", "dev"),
        ("Train", "train"),
        ("eval", "test"),
    ],
)
def test_other_names_of_splits(tmp_path, name, split):
    small_corpora.write_text(tmp_path / f"{name}.json", '{"audio_filepath": "a.wav"}\n')
    assert [u.split for u in _list(tmp_path)] == [split]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1", "train.json: line 1: '1' is not a valid JSON object"),
        ("[1]", "train.json: object 1: 1 is not a JSON object"),
        ('{"text": "好"}', "line 1: columns are text, expected also audio"),
        ('{"audio_filepath": ["a.wav"]}', r"line 1: audio_filepath is \['a.wav'\], expected text"),
        ('{"audio_filepath": "a.wav", "offset": "x"}', "line 1: start is 'x', expected a number of seconds"),
        ('{"audio_filepath": "a.wav", "duration": -1}', "line 1: duration is '-1', expected a number"),
        ('{"audio_filepath": "a.wav", "text": {}}', "line 1: text is {}, expected text"),
    ],
)
def test_invalid_lines_are_refused(tmp_path, line, message):
    small_corpora.write_text(tmp_path / "train.json", line)
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_other_directories(tmp_path):
    small_corpora.write_text(tmp_path / "manifest.json", "{}")
    with pytest.raises(
        errors.UserError, match="NeMo manifest is missing, expected train.json, train_manifest.json"
    ):
        _list(tmp_path)
