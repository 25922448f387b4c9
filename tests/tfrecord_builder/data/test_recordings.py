import json

import pytest

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import copies
from tfrecord_builder.building import sharding
from tfrecord_builder.data import manifest, recordings
from tfrecord_builder.labels import labelling


def write(path, *made):
    path.write_text("".join(map(sharding.to_line, made)), encoding="utf-8")
    return str(path.with_suffix(".tfrecord"))


def item(utterance_id, audio="/c/a.wav", variant=None, stamp=(123, 456), **part):
    utterance = manifest.Utterance(utterance_id, audio, "一", "yi1", "S", "train", **part)
    return sharding.LabelledUtterance(utterance, labelling.Labels("一", ("yi1",), ("一",)), stamp, variant)


def find(shard, utterance_id):
    return recordings.find_all([shard], [utterance_id]).get(utterance_id)


def test_recordings_are_found_by_utterance_id(tmp_path):
    shard = write(
        tmp_path / "train-0.jsonl",
        item("u1"),
        item("第二", start_seconds=1.5, seconds=2.0, channel=1, stamp=None),
        item("u1~speed0.9", variant=copies.Variant(speed=0.9)),
    )
    assert find(shard, "u1") == recordings.Recording("/c/a.wav", num_bytes=123)
    assert find(shard, "第二") == recordings.Recording("/c/a.wav", 1.5, 2.0, 1)
    assert find(shard, "u1~speed0.9").is_augmented
    assert find(shard, "u3") is None


def test_text_and_shards_without_jsonl_have_no_recordings(tmp_path):
    shard = write(tmp_path / "train-0.jsonl", item("u1", audio=None, stamp=None))
    assert find(shard, "u1") is None
    assert find(str(tmp_path / "train-1.tfrecord"), "u1") is None


def test_recordings_of_several_shards_are_found_together(tmp_path):
    shards = [write(tmp_path / f"train-{i}.jsonl", item(f"u{i}", f"/c/{i}.wav")) for i in range(3)]
    found = recordings.find_all(shards, ["u0", "u2", "other"])
    assert {name: each.path for name, each in found.items()} == {"u0": "/c/0.wav", "u2": "/c/2.wav"}


@pytest.mark.parametrize("line", ["{", "[]", json.dumps({"utterance": {}})])
def test_an_invalid_item_is_refused(tmp_path, line):
    shard = write(tmp_path / "train-0.jsonl", item("u1"))
    with open(tmp_path / "train-0.jsonl", "a") as file:
        file.write(line + "\n")
    assert find(shard, "u1")
    message = r"train-0.jsonl: line 2 is not a valid item \(.*\); copy or build"
    with pytest.raises(errors.UserError, match=message):
        find(shard, "u2")
