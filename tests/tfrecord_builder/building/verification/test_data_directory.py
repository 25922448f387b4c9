"""Damages data directories in various ways; the check finds and locates every problem."""

import dataclasses
import json
import os
import pathlib
import random
import sqlite3

import built_data
import pytest

from tfrecord_builder import errors
from tfrecord_builder.building.verification import data_directory, stored_records
from tfrecord_builder.data import dataset_info

SHARD = "train-00001-of-00003.tfrecord"


def _verify(data_dir, advance=lambda num_bytes: None):
    info = dataset_info.DatasetInfo.load(str(data_dir))
    saved = data_directory.load_vocabularies(str(data_dir), info)
    return list(data_directory.check(str(data_dir), info, saved, advance))


def _texts(data_dir):
    return [str(each).removeprefix(f"{data_dir}/") for each in _verify(data_dir)]


def _read_records(path):
    with path.open("rb") as file:
        return list(stored_records.RecordFile(file).records())


def _change_info(data_dir, **changes):
    dataclasses.replace(dataset_info.DatasetInfo.load(str(data_dir)), **changes).save(str(data_dir))


def test_a_new_build_has_no_problems(built):
    done = []
    assert _verify(built, done.append) == []
    assert sum(done) == sum(path.stat().st_size for path in pathlib.Path(built).glob("*.tfrecord"))


def test_the_database_of_ids_is_closed(built, monkeypatch):
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path: opened.append(connect(path)) or opened[0])
    assert _verify(built) == []
    with pytest.raises(sqlite3.ProgrammingError, match="Cannot operate on a closed database"):
        opened[0].execute("SELECT 1")


def test_text_has_no_problems(tmp_path):
    assert _verify(built_data.make_text(tmp_path)) == []


def _flip_bits(path, num_random):
    """Flips a bit in the first byte, then in the last, then in random bytes; yields the byte's position."""
    content, rng = path.read_bytes(), random.Random(7)
    for place in [0, len(content) - 1, *(rng.randrange(len(content)) for _ in range(num_random))]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        yield place


def test_a_flipped_bit_in_a_shard_is_reported(data_dir):
    path = data_dir / SHARD
    for place in _flip_bits(path, 20):
        found = _verify(data_dir)
        assert {each.path for each in found} == {str(path)}, place
        assert {each.kind for each in found} == {data_directory.DAMAGED, data_directory.FILES}, place


ITEMS = SHARD.replace("tfrecord", "jsonl")
SIDECAR_FILES = ["tokens.txt", "characters.txt", "readings.tsv", "rejected.tsv", "report.html", ITEMS]


@pytest.mark.parametrize("name", SIDECAR_FILES)
def test_a_flipped_bit_in_a_sidecar_file_is_reported(data_dir, name):
    for place in _flip_bits(data_dir / name, 3):
        texts = _texts(data_dir)
        assert texts[0].startswith(f"{name}: sha256 is "), place
        assert [text for text in texts[1:] if "not checked, because a vocab" not in text] == [], place


def test_damaged_data_names_shard_record_byte_and_utterance(data_dir):
    path = data_dir / SHARD
    content = bytearray(path.read_bytes())
    first, second = _read_records(path)[:2]
    place = first.data.index(b"fbank") + 500
    content[12 + place] ^= 1
    content[second.offset + 12 + len(second.data)] ^= 1
    path.write_bytes(content)
    names = [stored_records.utterance_id(each.data) for each in (first, second)]
    texts = _texts(data_dir)
    assert texts[0].startswith(f"{SHARD}: record 0 at byte 0 (utterance {names[0]}): CRC of its data is ")
    assert texts[1].startswith(
        f"{SHARD}: record 1 at byte {second.offset} (utterance {names[1]}): CRC of its"
    )
    assert [text.split(" is ")[0] for text in texts[2:]] == [f"{SHARD}: sha256"]


def test_a_truncated_shard_and_extra_bytes(data_dir):
    content = (data_dir / SHARD).read_bytes()
    (data_dir / SHARD).write_bytes(content[:-100])
    texts = _texts(data_dir)
    assert "file ends after" in texts[0] and "the records after it cannot" in texts[0]
    assert f"{SHARD}: shard has {len(content) - 100} bytes, expected {len(content)}; copy" in texts[1]
    (data_dir / SHARD).write_bytes(content + b"\0" * 16)
    assert "CRC of its length is 00000000" in _texts(data_dir)[0]


def test_a_shard_that_is_truncated_between_records(data_dir):
    path = data_dir / SHARD
    offset = _read_records(path)[-1].offset
    path.write_bytes(path.read_bytes()[:offset])
    assert f"{SHARD}: shard has 3 records, expected 4; copy or build the data again" in _texts(data_dir)


@pytest.mark.parametrize("name, noun", [(SHARD, "shard"), *((name, "file") for name in SIDECAR_FILES)])
def test_a_missing_file_and_one_that_cannot_be_read(data_dir, name, noun):
    os.remove(data_dir / name)
    texts = _texts(data_dir)
    assert texts[0] == f"{name}: {noun} is missing; copy or build the data again"
    os.mkdir(data_dir / name)  # simulates a failing disk: the path exists, but reading it fails
    again = [text.replace("cannot be read (Is a directory)", "is missing") for text in _texts(data_dir)]
    assert again == texts and all(name in text or "because a vocabulary is" in text for text in texts)


def test_a_missing_sentencepiece_model_is_named(data_dir):
    _change_info(data_dir, bpe_sha256="0" * 64)
    assert _texts(data_dir) == ["bpe.model: file is missing; copy or build the data again"]


def test_without_dataset_info_nothing_is_checked(data_dir, tmp_path):
    (data_dir / "dataset_info.json").write_text("{")
    with pytest.raises(errors.UserError, match="is not valid JSON"):
        _verify(data_dir)
    with pytest.raises(errors.UserError, match="data directory does not exist"):
        _verify(tmp_path / "nowhere")


def test_a_wrong_record_with_right_checksums_is_named(data_dir):
    records = built_data.read(data_dir / SHARD)
    name = stored_records.utterance_id(records[1])
    offset = 16 + len(records[0])
    built_data.change_record(data_dir, SHARD, 1, token_ids=[99, 1])
    texts = _texts(data_dir)
    where = f"{SHARD}: record 1 at byte {offset} (utterance {name}): "
    assert len(texts) == 1 and texts[0].startswith(f"{where}token_ids contains 99, expected 0 to ")


def test_a_record_that_cannot_be_read_is_named(data_dir):
    records = built_data.read(data_dir / SHARD)
    built_data.rewrite(str(data_dir), SHARD, [b"\xff\xff\xff", *records[1:]])
    assert _texts(data_dir) == [f"{SHARD}: record 0 at byte 0: not a tf.train.Example"]


def test_a_duplicate_id_is_named_with_both_places(data_dir):
    first = built_data.read(data_dir / "train-00000-of-00003.tfrecord")[2]
    name = stored_records.utterance_id(first)
    built_data.change_record(data_dir, SHARD, 3, utterance_id=name)
    (text,) = _texts(data_dir)
    first = "record 2 of train-00000-of-00003.tfrecord"
    assert f"(utterance {name}): utterance id is already used by {first}; ids must be unique" in text


def test_all_problems_are_reported_in_one_run(data_dir):
    os.remove(data_dir / "train-00000-of-00003.tfrecord")
    built_data.change_record(data_dir, SHARD, 0, duration_ms=9999)
    content = bytearray((data_dir / "dev-00000-of-00003.tfrecord").read_bytes())
    content[60] ^= 1
    (data_dir / "dev-00000-of-00003.tfrecord").write_bytes(content)
    texts = _texts(data_dir)
    assert [text.split(":")[0] for text in texts] == [
        "dev-00000-of-00003.tfrecord",
        "dev-00000-of-00003.tfrecord",
        "train-00000-of-00003.tfrecord",
        SHARD,
    ]
    assert "num_frames is 48, expected 998 for 9999 ms" in texts[3]


def test_files_without_a_hash_may_be_missing(data_dir):
    path = data_dir / "dataset_info.json"
    values = json.loads(path.read_text())
    for name in ("config_sha256", "bpe_sha256", "rejected_sha256", "report_sha256"):
        del values[name]
    for split in values["splits"].values():
        del split["num_sentences"], split["shared_sentences"], split["shared_speakers"]
        for shard in split["shards"]:
            del shard["items_sha256"]
    path.write_text(json.dumps(values))
    for name in ("report.html", *(each.name for each in data_dir.glob("*.jsonl"))):
        os.remove(data_dir / name)
    assert _texts(data_dir) == []
