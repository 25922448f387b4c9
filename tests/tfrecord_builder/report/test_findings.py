import dataclasses

from tfrecord_builder import dataset_info, frontend
from tfrecord_builder.records import shard_statistics
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


def test_good_data_have_no_findings():
    shared = {"shared_sentences": {"train": 0}}
    info = _info(1, train={}, dev=shared, test=shared)
    assert _find(info, train={"speakers": ["a"]}, dev={"speakers": ["b"]}, test={"speakers": ["c"]}) == []


def test_sentences_and_speakers_that_are_also_in_train():
    info = _info(
        train={}, dev={"shared_sentences": {"train": 50}}, test={"shared_sentences": {"train": 1, "dev": 9}}
    )
    speakers = {"train": ["", "a", "b"], "dev": ["", "b", "c"], "test": ["b"]}
    assert _find(info, **{name: {"speakers": each} for name, each in speakers.items()}) == [
        "All sentences of dev (50) are also in train: an error rate on dev says nothing about new sentences.",
        "1 of the 2 speakers of dev (50.0 %) are also in train: the error rate on dev is lower than on new "
        "speakers alone.",
        "1 of the 50 sentences of test (2.0 %) are also in train: the error rate on test is lower than on "
        "new sentences alone.",
        "All speakers of test (1) are also in train: an error rate on test says nothing about new speakers.",
    ]


def test_labels_that_the_model_cannot_recognise():
    info = _info(train={}, dev={"unknown_tokens": 11, "unknown_characters": 10})
    assert _find(info) == [
        "11 of the 1,000 tokens of dev (1.1 %) are not in the vocabulary; the model cannot recognise them."
    ]


def test_many_rejected_clipping_and_no_train():
    assert _find(_info(2, test={}), test={"clipped_utterances": 3}) == [
        "2 of 102 utterances were rejected; the reasons are at the end of this page.",
        "There is no train split.",
        "3 of 100 utterances clip: several samples in a row are at full scale.",
    ]
