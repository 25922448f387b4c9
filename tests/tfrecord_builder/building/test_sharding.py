import dataclasses
import hashlib
import json
import os

import pytest
import small_corpora
import small_shards

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import shard_writer, sharding
from tfrecord_builder.data import manifest, readings, recordings
from tfrecord_builder.labels import labelling
from tfrecord_builder.storage import files

LABELS = labelling.Labels("你", ("ni3",), ("你",))
OTHER_LABELS = labelling.Labels("好", ("hao3",), ("好",))


def _items(*names, split="train", signature=(1, 2), text="你"):
    found = labelling.Labels(text, ("ni3",), ("你",))
    return [
        sharding.LabelledUtterance(manifest.Utterance(n, "/a.wav", "s", text, "", split), found, signature)
        for n in names
    ]


def _settings(**changes):
    saved = small_corpora.make_vocabularies(LABELS)
    settings = sharding.RecordSettings(saved, frontend.FrontendConfig(), "float16", 30.0)
    return dataclasses.replace(settings, **changes)


def _names(directory, shards):
    return [
        "".join(item.utterance.utterance_id for item in sharding.read_items(str(directory / shard.file)))
        for shard in shards
    ]


def test_every_utterance_is_written_once_in_an_order_independent_of_the_listing(tmp_path):
    shards = small_shards.write(_items(*"abcdefg"), 3, tmp_path)
    names = _names(tmp_path, shards)
    assert shards == small_shards.write(_items(*"gfedcba"), 3, tmp_path)
    assert names == _names(tmp_path, shards)
    assert [shard.num_items for shard in shards] == [3, 2, 2]
    assert sorted("".join(names)) == list("abcdefg")


def test_items_are_sorted_by_the_sha256_of_their_ids(tmp_path):
    shards = small_shards.write(_items(*"abc"), 1, tmp_path)
    assert _names(tmp_path, shards) == ["cba"]  # the hashes begin with 2e7d, 3e23 and ca97


def test_items_are_written_in_several_flushes(tmp_path, monkeypatch):
    monkeypatch.setattr(sharding, "_BUFFER_BYTES", 5 * 300)  # a shard of two items is written in two parts
    shards = small_shards.write(_items(*"abcdefg"), 5, tmp_path)
    few = _names(tmp_path, shards)
    monkeypatch.undo()
    assert shards == small_shards.write(_items(*"abcdefg"), 5, tmp_path)
    assert few == _names(tmp_path, shards)


def test_an_id_shared_by_an_utterance_and_a_copy_is_refused(tmp_path):
    message = "--corpus_dir: a is the id of both an utterance and an augmented copy of another utterance; ren"
    with pytest.raises(errors.UserError, match=message):
        small_shards.write(_items(*"abc") + _items("a", split="dev"), 2, tmp_path)


def test_every_split_has_its_own_shards_and_none_is_empty(tmp_path):
    shards = small_shards.write(_items(*"abc") + _items("d", split="dev"), 2, tmp_path)
    assert [(shard.split, shard.file, shard.num_items) for shard in shards] == [
        ("dev", "dev-00000-of-00001.tfrecord", 1),
        ("train", "train-00000-of-00002.tfrecord", 2),
        ("train", "train-00001-of-00002.tfrecord", 1),
    ]


def test_a_labelled_line_has_hash_split_sentence_id_and_item():
    (item,) = _items("c")
    digest, split, sentence, name, line = sharding.to_labelled_line(item).decode().split("\t")
    assert (split, name, line) == ("train", "c", sharding.to_line(item))
    assert digest.startswith("2e7d2c03") and sentence == hashlib.sha256("你".encode()).hexdigest()
    spoken = dataclasses.replace(item, labels=labelling.Labels("", ("ni3", "hao3"), ()))
    sentence = hashlib.sha256(b"ni3 hao3").hexdigest()
    assert sharding.to_labelled_line(spoken).split(b"\t")[2].decode() == sentence


def test_items_are_lines_of_json_beside_the_shard(tmp_path):
    (shard,) = small_shards.write(_items("a"), 1, tmp_path)
    assert recordings.path_of(shard.file) == "train-00000-of-00001.jsonl"
    assert json.loads((tmp_path / "train-00000-of-00001.jsonl").read_text("utf-8")) == {
        "utterance": {
            **{"utterance_id": "a", "audio": "/a.wav", "speaker": "s", "text": "你", "pinyin": ""},
            **{"split": "train", "start_seconds": 0.0, "seconds": None, "channel": None},
            **{"problem": "", "speed": 1.0, "volume_db": 0.0},
        },
        "labels": {"transcript": "你", "tokens": ["ni3"], "characters": ["你"]},
        "stamp": [1, 2],
        "variant": None,
    }
    assert list(sharding.read_items(str(tmp_path / shard.file))) == _items("a")


def test_fingerprint_of_a_shard_changes_with_whatever_changes_its_bytes(tmp_path):
    def fingerprint(found, settings=None):
        (shard,) = small_shards.write(found, 1, tmp_path)
        return shard_writer.RecordWriter(str(tmp_path), settings or _settings()).fingerprint(shard)

    first = fingerprint(_items(*"abc"))
    assert first == fingerprint(_items(*"cba"))
    saved, other = (small_corpora.make_vocabularies(labels) for labels in (LABELS, OTHER_LABELS))
    settings = [
        {"vocabularies": dataclasses.replace(saved, tokens=other.tokens)},
        {"vocabularies": dataclasses.replace(saved, characters=other.characters)},
        {"vocabularies": dataclasses.replace(saved, readings=readings.Readings({"ni3": "尼"}))},
        {"max_seconds": 20.0},
        {"fbank_dtype": "float32"},
        {"frontend": frontend.FrontendConfig(num_mel_bins=40)},
        {"frontend": None},
    ]
    others = [fingerprint(_items(*"abc"), _settings(**changes)) for changes in settings]
    items = [_items(*"ab"), _items(*"abc", signature=(1, 3)), _items(*"abc", text="您")]
    assert len({first, *others, *map(fingerprint, items)}) == 11


def test_fingerprint_of_a_build_depends_on_the_list_but_not_on_the_recordings(tmp_path):
    def fingerprint(found, num_shards=2, **changes):
        return sharding.fingerprint(small_shards.write(found, num_shards, tmp_path), _settings(**changes))

    first = fingerprint(_items(*"abc"))
    assert first == fingerprint(_items(*"abc", signature=(1, 3)))
    others = [
        fingerprint(_items(*"abc"), **changes) for changes in ({"num_shards": 3}, {"max_seconds": 20.0})
    ]
    assert len({first, fingerprint(_items(*"abd")), *others}) == 4


def test_items_with_any_bytes_in_the_file_name_survive_saving_and_loading():
    name = os.fsdecode("/语/你.wav".encode("gbk"))
    utterance = manifest.Utterance("u", name, "s", "你 \u2028\n", "", "dev", 1.5, 2.25, 1)
    item = sharding.LabelledUtterance(utterance, LABELS, (10, 20))
    line = sharding.to_line(item)
    assert sharding.from_json(json.loads(line)) == item
    assert line.endswith("\n") and line.count("\n") == 1 and "你" in line
    line.encode("utf-8")


def test_file_signature(tmp_path):
    path = tmp_path / "a.wav"
    assert sharding.file_signature(None) is None and sharding.file_signature(str(path)) is None
    path.write_bytes(b"123")
    os.utime(path, ns=(5, 7))
    assert sharding.file_signature(str(path)) == (3, 7)


@pytest.mark.parametrize("error", [PermissionError(), NotADirectoryError(), ValueError()])
def test_a_recording_that_cannot_be_reached_has_no_signature(monkeypatch, error):
    def size_and_time(path):
        raise error

    monkeypatch.setattr(files, "size_and_time", size_and_time)
    assert sharding.file_signature("/c/a.wav") is None
