import corpus_trees
import pytest

from tfrecord_builder import errors
from tfrecord_builder.corpora import lhotse


def _list(corpus_dir):
    return list(lhotse.list_utterances(str(corpus_dir)))


def _write(tmp_path, cut):
    corpus_trees.write_gzip(tmp_path / "cuts_train.jsonl.gz", corpus_trees.to_lines([cut]))


def _recording(**changes):
    return {**corpus_trees.make_cut()["recording"], **changes}


def test_cuts(tmp_path):
    found = _list(corpus_trees.make_lhotse_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text) for u in found] == [
        ("a-0", "s1", "train", "你好"),
        ("b-0", "", "dev", ""),
    ]
    assert (found[0].start_seconds, found[0].seconds, found[0].channel) == (0.25, 0.5, 0)
    assert found[0].audio == str(tmp_path / "wav" / "a.wav")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("cuts_test.jsonl", "test"),
        ("librispeech_cuts_train-clean-100.jsonl.gz", "train"),
        ("dev.jsonl.gz", "dev"),
        ("aishell_cuts_train_raw.jsonl.gz", None),
        ("aishell_supervisions_train.jsonl.gz", None),
    ],
)
def test_names_of_files(tmp_path, name, split):
    write = corpus_trees.write_gzip if name.endswith(".gz") else corpus_trees.small_corpora.write_text
    write(tmp_path / name, corpus_trees.to_lines([corpus_trees.make_cut()]))
    if split:
        assert [u.split for u in _list(tmp_path)] == [split]
        return
    with pytest.raises(
        errors.UserError, match="it has no Lhotse cuts, expected cuts_train.jsonl.gz or train.jso"
    ):
        _list(tmp_path)


def test_the_channel_counts_within_its_file(tmp_path):
    sources = [
        {"type": "file", "channels": [0, 1], "source": "/in/front.wav"},
        {"type": "file", "channels": [2, 3], "source": "/in/back.wav"},
    ]
    _write(tmp_path, corpus_trees.make_cut(channel=3, recording=_recording(sources=sources)))
    (found,) = _list(tmp_path)
    assert (found.audio, found.channel) == ("/in/back.wav", 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(type="MixedCut"),
            "the cut is no MonoCut, expected one of a single channel; write the cuts again so",
        ),
        (
            dict(supervisions=[{}, {}]),
            "the cut has 2 supervisions, expected one; run cuts.trim_to_supervisions",
        ),
        (dict(supervisions={}), None),
        (dict(supervisions=["你好"]), "supervisions is no list of objects, expected one"),
        (dict(supervisions=[{"text": 1.5}]), "text is 1.5, expected text"),
        (dict(id=None), "id is missing, expected text"),
        (dict(start=-1), "start is -1, expected seconds of 0 or more"),
        (dict(duration="1"), "duration is '1', expected seconds"),
        (dict(recording=None), "the cut has no recording, expected one with its sources"),
        (
            dict(recording=_recording(transforms=[{"name": "Speed"}])),
            "the recording has transforms, expected audi",
        ),
        (
            dict(recording=_recording(sources=[{"type": "command", "channels": [0], "source": "cat a.wav"}])),
            "a source is no file, expected sources of type file alone",
        ),
        (
            dict(recording=_recording(sources=[{"type": "file", "source": "a.wav"}])),
            "a source has no channels, expected a list of them",
        ),
        (
            dict(recording=_recording(sources=[{"type": "file", "channels": [0]}])),
            "source is missing, expected text",
        ),
        (
            dict(channel=1),
            "channel 1 is in no source of the recording, expected it in one; write the cuts again",
        ),
        (dict(recording=_recording(sources=[])), "channel 0 is in no source of the recording"),
    ],
)
def test_cuts_that_are_refused(tmp_path, changes, message):
    _write(tmp_path, corpus_trees.make_cut(**changes))
    if message is None:
        assert _list(tmp_path)[0].text == ""
        return
    with pytest.raises(errors.UserError, match=f"cuts_train.jsonl.gz: line 1: {message}"):
        _list(tmp_path)
