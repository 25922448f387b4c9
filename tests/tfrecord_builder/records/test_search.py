import os
import pathlib
import shutil

import built_data
import pytest

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info
from tfrecord_builder.records import record_checks, search
from tfrecord_builder.tokens import vocabulary


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return built_data.make(tmp_path_factory.mktemp("built"), 6, 3)


@pytest.fixture
def data_dir(built, tmp_path):
    return pathlib.Path(shutil.copytree(built, tmp_path / "data"))


def _find(data_dir, utterance_id=None):
    info = dataset_info.DatasetInfo.load(str(data_dir))
    tokens, characters = (
        vocabulary.Vocabulary.load(str(data_dir / name)) for name in ("tokens.txt", "characters.txt")
    )
    expected = record_checks.Expected(tokens, characters, info.frontend, info.fbank_dtype)
    return search.find(str(data_dir), info, expected, utterance_id)


def test_the_first_record_of_train_without_an_id(data_dir):
    found = _find(data_dir)
    first = built_data.read(data_dir / "train-00000-of-00003.tfrecord")[0]
    assert found.record.utterance_id == record_checks.utterance_id(first)
    assert (found.split, found.number, os.path.basename(found.shard)) == (
        "train",
        0,
        "train-00000-of-00003.tfrecord",
    )


@pytest.mark.parametrize("with_items", [True, False])
def test_every_record_is_found_by_its_id(data_dir, with_items):
    if not with_items:
        for path in data_dir.glob("*.jsonl"):
            path.unlink()
    for i in range(9):
        found = _find(data_dir, f"u{i:02d}")
        assert found.record.utterance_id == f"u{i:02d}"
        assert found.split == ("train" if i < 6 else "dev")
        assert bool(found.utterance) == with_items
        if with_items:
            assert os.path.basename(found.utterance.audio) == f"u{i:02d}.wav"


def test_an_unknown_id(data_dir):
    with pytest.raises(errors.UserError, match="--utterance_id: u0 is missing in .*, expected the id of a r"):
        _find(data_dir, "u0")


def test_a_rejected_utterance_has_its_reason(data_dir):
    rows = ["utterance_id\tsplit\treason\trecording", "u77\ttrain\tsilent audio\t/in/u77.wav"]
    (data_dir / "rejected.tsv").write_text("\n".join(rows))
    with pytest.raises(errors.UserError, match=r"u77 was rejected \(silent audio\), .*rejected.tsv"):
        _find(data_dir, "u77")
    os.remove(data_dir / "rejected.tsv")
    with pytest.raises(errors.UserError, match="u77 is missing in"):
        _find(data_dir, "u77")


def test_a_missing_shard_is_named(data_dir):
    os.remove(data_dir / "train-00000-of-00003.tfrecord")
    with pytest.raises(errors.UserError, match="train-00000-of-00003.tfrecord: shard is missing"):
        _find(data_dir)


def test_a_damaged_record_is_named(data_dir):
    path = data_dir / "train-00000-of-00003.tfrecord"
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match="record 0 at byte 0: CRC of its data is .*verify"):
        _find(data_dir)
    built_data.rewrite(str(data_dir), path.name, [b"\xff\xff"])
    with pytest.raises(errors.UserError, match="record 0 at byte 0: is not a tf.train.Example, expected an"):
        _find(data_dir)


def test_a_record_with_a_damaged_id_is_not_reported_as_missing(data_dir):
    path = data_dir / "train-00000-of-00003.tfrecord"
    name = record_checks.utterance_id(built_data.read(path)[0])
    content = bytearray(path.read_bytes())
    content[12] ^= 255  # the record can no longer be parsed
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match="record 0 at byte 0: CRC of its data is .*verify"):
        _find(data_dir, name)
    (data_dir / "rejected.tsv").write_text(f"utterance_id\tsplit\treason\n{name}\ttrain\tsilent audio\n")
    with pytest.raises(errors.UserError, match=f"{name} was rejected \\(silent audio"):
        _find(data_dir, name)


def test_no_record_at_all(data_dir):
    for path in data_dir.glob("*.tfrecord"):
        built_data.rewrite(str(data_dir), path.name, [])
    with pytest.raises(errors.UserError, match="number of records is 0, expected one or more; build"):
        _find(data_dir)
