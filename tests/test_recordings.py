from __future__ import annotations

import pytest

from tfrecord_builder import errors, items, labels, manifest, recordings

LABELS = labels.Labels("你", ("ni3",), ("你",))


def write_items(tmp_path, *utterances):
    lines = [items.to_line(items.Item(utterance, LABELS)) for utterance in utterances]
    (tmp_path / "dev-0.jsonl").write_text("".join(lines), encoding="utf-8")
    return str(tmp_path / "dev-0.tfrecord")


def test_a_recording_is_what_the_builder_wrote_of_it(tmp_path):
    shard = write_items(
        tmp_path,
        manifest.Utterance("a", "/c/a.wav", "s", "你", "ni3", "dev", 1.5, 2.25, 1),
        manifest.Utterance("b", "/c/b.wav", "s", "你", "ni3", "dev"),
        manifest.Utterance("c", "/c/c.wav", "s", "你", "ni3", "dev"),
        manifest.Utterance("text", None, "", "你", "ni3", "dev"),
    )
    assert items.path_of(shard) == recordings.path_of(shard) == str(tmp_path / "dev-0.jsonl")
    assert recordings.find(shard, ["a", "c", "text", "other"]) == {
        "a": recordings.Recording("/c/a.wav", 1.5, 2.25, 1),
        "c": recordings.Recording("/c/c.wav", 0.0, None, None),
    }


def test_a_shard_without_items_has_no_recordings(tmp_path):
    assert recordings.find(str(tmp_path / "dev-0.tfrecord"), ["a"]) == {}


@pytest.mark.parametrize("line", ["{", "[]", '{"utterance": {"audio": "x"}}'])
def test_a_line_that_is_no_item_is_refused(tmp_path, line):
    (tmp_path / "dev-0.jsonl").write_text(line)
    with pytest.raises(errors.UserError, match="dev-0.jsonl: line 1 is no item .*, expected the JSON that"):
        recordings.find(str(tmp_path / "dev-0.tfrecord"), ["a"])
