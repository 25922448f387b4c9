from __future__ import annotations

import numpy as np
import pytest

from estimator_asr.diagnostics import batch_comparison, batch_dump
from tfrecord_builder import errors

RECORDS = [np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(8, dtype=np.float32).reshape(4, 2)]
IDS = [[3, 1], [2]]


def make_examples():
    return [
        {
            "utterance_id": f"u{row}".encode(),
            "transcript": "你好".encode(),
            "token_ids": np.array(ids, np.int32),
            "character_ids": np.array(ids, np.int32) + 1,
            "fbank": fbank,
        }
        for row, (ids, fbank) in enumerate(zip(IDS, RECORDS))
    ]


def make_features(num_frames=6):
    """Both utterances in a batch: frame 1 of the first is masked."""
    fbank = np.zeros([2, num_frames, 2], np.float32)
    for row, record in enumerate(RECORDS):
        fbank[row, : len(record)] = record
    fbank[0, 1] = [5, 6]  # means of 0, 2 ... 10 and 1, 3 ... 11
    return {
        "fbank": fbank,
        "num_frames": np.array([6, 4], np.int32),
        "token_ids": np.array([[3, 1], [2, 0]], np.int32),
        "num_tokens": np.array([2, 1], np.int32),
        "character_ids": np.array([[4, 2], [3, 0]], np.int32),
        "num_characters": np.array([2, 1], np.int32),
        "seed": np.array([5, 0]),
    }


def make_labels(features):
    return {name: features[name].copy() for name in ("token_ids", "num_tokens")}


def compare(features=None, labels=None, again=None, is_masked=True, examples=None):
    again = again or make_features()
    features = features or make_features()
    dump = batch_dump.Dump("batch-00000.npz", features, labels or make_labels(features), 0, 1, "", "")
    source = batch_comparison.Source(examples or make_examples(), again, make_labels(again))
    return batch_comparison.compare(dump, source, is_masked)


def spoil(name, place, value):
    features = make_features()
    features[name][place] = value
    return features


def test_an_honest_batch_has_no_mismatch_and_shows_what_is_masked():
    first, second = compare()
    assert (first.utterance_id, first.transcript) == ("u0", "你好")
    assert first.ids.tolist() == [3, 1] and second.ids.tolist() == [2]
    assert first.masked_fraction == pytest.approx(1 / 6) and second.masked_fraction == 0
    assert (first.num_frames, second.num_frames) == (6, 4)
    assert first.mismatches == second.mismatches == ()


def test_a_padding_row_is_ignored_and_more_padding_is_no_mismatch():
    features = make_features(num_frames=8)
    features = {
        name: value if name == "seed" else np.concatenate([value, np.zeros_like(value[:1])])
        for name, value in features.items()
    }
    assert [row.mismatches for row in compare(features)] == [(), ()]


def test_text_has_no_features():
    features = {name: value for name, value in make_features().items() if name not in ("fbank", "num_frames")}
    rows = compare(features, again=features)
    assert [(row.num_frames, row.masked_fraction, row.mismatches) for row in rows] == [(None, None, ())] * 2


@pytest.mark.parametrize(
    ("name", "place", "value", "said"),
    [
        ("token_ids", (1, 0), 4, "token_ids are 4, expected 2 as in the record"),
        ("num_tokens", 0, 1, "token_ids are 3, expected 3 1 as in the record"),
        ("token_ids", (1, 1), 4, "padding of token_ids is not zero, expected zeros"),
        ("character_ids", (0, 1), 0, "character_ids are 4 0, expected 4 2 as in the record"),
        ("num_frames", 0, 5, "shape of fbank is [5, 2], expected [6, 2] as in the record"),
        ("fbank", (1, 3, 0), 6.001, "bin 0 of frame 3 is 6.001, expected 6 as in the record or the mean 3"),
        ("fbank", (1, 5, 0), 1, "padding of fbank is not zero, expected zeros"),
    ],
)
def test_values_that_differ_from_the_record_are_mismatches(name, place, value, said):
    features = spoil(name, place, value)
    rows = compare(features, again=features)  # the batch read again is the same
    found = [row.mismatches for row in rows]
    assert said in found[0] + found[1] and () in found


def test_a_mean_where_nothing_is_masked_is_a_mismatch():
    said = "bin 0 of frame 1 is 5, expected 2 as in the record"
    assert [row.mismatches for row in compare(is_masked=False)] == [(said,), ()]


def test_labels_that_are_not_the_features_are_a_mismatch():
    labels = make_labels(make_features())
    labels["token_ids"][0, 0] = 0
    first, _ = compare(labels=labels)
    assert "token_ids are 0 1, expected 3 1 as in the record" in first.mismatches


def test_a_batch_that_is_not_read_again_is_a_mismatch():
    first, second = compare(again=spoil("fbank", (0, 1), [2, 3]))  # no mask
    said = "fbank differs by up to 3 from the batch read again, expected the same"
    assert (first.mismatches, second.mismatches) == ((said,), ())


def test_another_type_is_a_mismatch():
    features = make_features()
    features["token_ids"] = features["token_ids"].astype(np.int64)
    first, _ = compare(features)
    assert "token_ids is int64 [2], expected int32 [2] as read again from the data" in first.mismatches
    features = make_features()
    features["fbank"] = features["fbank"].astype(np.float64)
    first, _ = compare(features)
    said = "fbank is float64 [6, 2], expected float32 [6, 2] as read again from the data"
    assert first.mismatches == (said,)


def test_a_batch_of_other_utterances_is_refused():
    said = r"batch-00000.npz: its 2 utterances are not the 2 of the data in batch 0 of seed 5, expected"
    with pytest.raises(errors.UserError, match=said):
        compare(examples=make_examples()[::-1])
    with pytest.raises(errors.UserError, match="its 2 utterances are not the 1 "):
        compare(examples=make_examples()[:1])
