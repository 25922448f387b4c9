import dataclasses

from tfrecord_builder import dataset_info, frontend
from tfrecord_builder.building import shard_statistics
from tfrecord_builder.report import findings

SPLIT = dataset_info.SplitInfo(
    num_utterances=100,
    num_speakers=2,
    seconds=100.0,
    num_tokens=1000,
    num_characters=1000,
    unknown_tokens=0,
    unknown_characters=0,
    frame_lengths={},
    token_lengths={},
    shards=(),
    num_sentences=50,
)


def _info(num_rejected=0, **splits):
    found = {name: dataclasses.replace(SPLIT, **changes) for name, changes in splits.items()}
    return dataset_info.DatasetInfo(
        frontend.FrontendConfig(), "float16", "syllable", "", "", "", (), (), found, num_rejected
    )


def _find(info, **fields):
    totals = {
        name: shard_statistics.ShardStatistics("", name, **fields.get(name, {})) for name in info.splits
    }
    return list(findings.find(info, totals))


def test_nothing_to_say_of_good_data():
    shared = {"shared_sentences": {"train": 0}}
    info = _info(1, train={}, dev=shared, test=shared)
    assert _find(info, train={"speakers": ["a"]}, dev={"speakers": ["b"]}, test={"speakers": ["c"]}) == []


def test_sentences_that_stand_in_train():
    info = _info(
        train={}, dev={"shared_sentences": {"train": 50}}, test={"shared_sentences": {"train": 1, "dev": 9}}
    )
    assert _find(info) == [
        "All sentences of dev (50) stand in train too: an error rate on dev says nothing about new "
        "sentences.",
        "1 of the 50 sentences of test (2.0 %) stand in train too: an error rate on test is better than one "
        "on new sentences alone.",
    ]


def test_speakers_that_speak_in_train():
    info = _info(train={}, dev={})
    found = _find(info, train={"speakers": ["", "a", "b"]}, dev={"speakers": ["", "b", "c"]})
    assert found == [
        "1 of the 2 speakers of dev speak in train too: an error rate on dev is better than one on new "
        "voices alone."
    ]
    found = _find(info, train={"speakers": ["a", "b"]}, dev={"speakers": ["b"]})
    assert found == [
        "All speakers of dev (1) speak in train too: an error rate on dev says nothing about new voices."
    ]


def test_labels_that_no_model_can_write():
    info = _info(train={}, dev={"unknown_tokens": 11, "unknown_characters": 10})
    assert _find(info) == [
        "11 of the 1,000 tokens of dev (1.1 %) are not in the vocabulary, so no model can write them."
    ]


def test_many_rejected_clipping_and_no_train():
    assert _find(_info(2, test={}), test={"clipped_utterances": 3}) == [
        "2 of 102 utterances were left out; see why at the end of this page.",
        "There is no train split.",
        "3 of 100 utterances clip: they are flat at full scale.",
    ]
