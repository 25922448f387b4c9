import json
import os

import pytest

from tfrecord_builder.building.records import items
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling
from tfrecord_builder.storage import files

LABELS = labelling.Labels("你", ("ni3",), ("你",))


def test_items_with_any_bytes_in_the_file_name_survive_saving_and_loading():
    name = os.fsdecode("/语/你.wav".encode("gbk"))
    utterance = manifest.Utterance("u", name, "s", "你 \u2028\n", "", "dev", 1.5, 2.25, 1)
    item = items.LabelledUtterance(utterance, LABELS, (10, 20))
    line = items.to_line(item)
    assert items.from_json(json.loads(line)) == item
    assert line.endswith("\n") and line.count("\n") == 1 and "你" in line
    line.encode("utf-8")


def test_text_has_neither_recording_nor_signature():
    item = items.LabelledUtterance(manifest.Utterance("u", None, "", "你", "ni3", "train"), LABELS)
    assert items.from_json(json.loads(items.to_line(item))) == item


def test_file_signature(tmp_path):
    path = tmp_path / "a.wav"
    assert items.file_signature(None) is None and items.file_signature(str(path)) is None
    path.write_bytes(b"123")
    os.utime(path, ns=(5, 7))
    assert items.file_signature(str(path)) == (3, 7)


@pytest.mark.parametrize("error", [PermissionError(), NotADirectoryError(), ValueError()])
def test_a_recording_that_cannot_be_reached_has_no_signature(monkeypatch, error):
    def size_and_time(path):
        raise error

    monkeypatch.setattr(files, "size_and_time", size_and_time)
    assert items.file_signature("/c/a.wav") is None
