import dataclasses
import os

import numpy as np
import pytest
import small_records
import tensorflow as tf
from read_batches import SETTINGS

from estimator_asr.experiment import task_spec
from estimator_asr.inputs import input_fn, input_progress, record_index, splits
from tfrecord_builder import errors
from tfrecord_builder.data import schema


@pytest.fixture
def source(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", 120)], num_shards=8)
    source = splits.read_split([info], [path], "train", task_spec.ACOUSTIC)
    return dataclasses.replace(source, index_dir=str(tmp_path / "index"))


@pytest.fixture
def read_bytes(monkeypatch):
    """Records the number of bytes of each read."""
    counted, original = [], os.pread

    def pread(*arguments):
        data = original(*arguments)
        counted.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", pread)
    return counted


def read(source, num_batches, worker=0, num_workers=1, index=0, settings=SETTINGS):
    """Returns the features of the per-replica batches that a worker with one replica gets."""
    start = input_progress.InputPosition(0, index)
    options = dict(training=True, seed=3, start=start, num_replicas=num_workers)
    build = input_fn.build_input_fn(source, settings, **options)
    context = tf.distribute.InputContext(num_workers, worker, num_workers)
    return [each for each, _ in input_fn.read_elements(lambda: build(context).take(num_batches))]


def utterances(features):
    """Returns the features of each row as bytes, to identify utterances; rows of padding are left out."""
    rows = zip(features["fbank"], features["num_frames"])
    return [fbank[:frames].tobytes() for fbank, frames in rows if frames]


def join(parts):
    """Returns the rows of a batch from its per-replica parts, which have every n-th row."""
    rows = [utterances(features) for features in parts]
    return [part[i] for i in range(len(rows[0])) for part in rows if i < len(part)]


def read_all(source, num_batches, num_replicas):
    """Returns the utterances of each batch on one machine that has all replicas."""
    build = input_fn.build_input_fn(source, SETTINGS, training=True, seed=3, num_replicas=num_replicas)
    parts = [each for each, _ in input_fn.read_elements(lambda: build().take(num_batches * num_replicas))]
    return [join(parts[i : i + num_replicas]) for i in range(0, len(parts), num_replicas)]


def read_only_index(monkeypatch):
    """Makes reading a whole shard fail."""
    monkeypatch.setattr(schema, "read_shard", None)


def test_the_index_has_the_place_and_the_length_of_each_record(source):
    index = record_index.load(source, SETTINGS)
    records = [
        (number, bytes(record))
        for number, shard in enumerate(source.shards)
        for record in tf.data.TFRecordDataset(shard.path).as_numpy_iterator()
    ]
    assert index.firsts.tolist() == [15 * i for i in range(9)]
    assert index.sizes.tolist() == [len(record) for _, record in records]
    for row, (shard, record) in enumerate(records):
        with open(source.shards[shard].path, "rb") as file:
            content = file.read()
        begin = index.offsets[row] + 12
        assert content[begin : begin + index.sizes[row]] == record
        (frames,) = tf.train.Example.FromString(record).features.feature["num_frames"].int64_list.value
        assert index.lengths[row] == frames


def test_the_index_of_text_counts_tokens(source):
    text = dataclasses.replace(source, spec=task_spec.LANGUAGE)
    lengths = record_index.load(text, SETTINGS).lengths
    assert lengths.tolist()[:16] == [1 + 8 * i % 3 for i in range(15)] + [2]  # utterance i is in shard i % 8
    assert record_index.load(source, SETTINGS).lengths.min() >= 16  # the index of frames has its own files


def test_text_of_copies_without_words_is_left_out_but_not_their_sound(tmp_path):
    def change(record):
        return small_records.without_words(record) if len(record.token_ids) == 2 else record

    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", 12)], change=change)
    specs = task_spec.LANGUAGE, task_spec.ACOUSTIC
    parts = [splits.read_split([info], [path], "train", spec) for spec in specs]
    text, speech = (dataclasses.replace(part, index_dir=str(tmp_path)) for part in parts)
    assert (text.num_utterances, speech.num_utterances) == (8, 12)
    index = record_index.load(text, SETTINGS)
    assert index.lengths.tolist() == [1, 3, 1, 3, 1, 3, 1, 3] and index.firsts.tolist() == [0, 4, 8]
    assert record_index.load(speech, SETTINGS).lengths.size == 12
    for source, count in ((text, 8), (speech, 12)):
        read_in_order = input_fn.build_input_fn(source, SETTINGS, training=False)
        assert sum(len(each["num_tokens"]) for each, _ in input_fn.read_elements(read_in_order)) == count


def test_a_shard_is_indexed_once(source, monkeypatch):
    before = record_index.load(source, SETTINGS)
    assert set(os.listdir(source.index_dir)) == {f"{shard.sha256}.frames.npy" for shard in source.shards}
    read_only_index(monkeypatch)
    for left, right in zip(before, record_index.load(source, SETTINGS)):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("content", [b"", b"no array", "other"])
def test_a_file_that_is_not_the_index_of_a_shard_is_made_again(source, content):
    before = record_index.load(source, SETTINGS)
    paths = [os.path.join(source.index_dir, f"{each.sha256}.frames.npy") for each in source.shards[:2]]
    if content == "other":  # the index of a shard with another size
        np.save(paths[0], np.ones([2, 15], np.int32))
    else:
        with open(paths[0], "wb") as file:
            file.write(content)
    for left, right in zip(before, record_index.load(source, SETTINGS)):
        np.testing.assert_array_equal(left, right)
    assert np.load(paths[0]).shape == (2, 15) and np.load(paths[0]).min() > 1


def test_an_index_that_cannot_be_written_is_a_warning(source, tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(record_index.logging, "warning", lambda text, *values: lines.append(text % values))
    (tmp_path / "index").touch()
    index = record_index.load(source, SETTINGS)
    assert len(index.lengths) == 120 and len(lines) == 8
    assert f"{tmp_path}/index/{source.shards[0].sha256}.frames.npy cannot be written" in lines[0]
    assert "the shard will be read again at the next start" in lines[0]


def test_workers_that_share_a_directory_share_the_indexing(source, monkeypatch):
    """The second of two workers starts in the middle, and does not read shards that the first has indexed."""
    read_by, original = [], schema.read_shard

    def iterate(path):
        read_by.append(int(os.path.basename(path)[6:11]))
        if read_by == [4]:
            record_index.load(dataclasses.replace(source, shards=source.shards[:4]), SETTINGS)
        return original(path)

    monkeypatch.setattr(schema, "read_shard", iterate)
    read(source, 1, worker=1, num_workers=2)
    assert read_by == [4, 0, 1, 2, 3, 5, 6, 7]


@pytest.mark.parametrize("num_workers", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.long
def test_the_rows_of_the_workers_are_the_batch_and_an_epoch_has_every_utterance_once(source, num_workers):
    num_batches = source.bucket(SETTINGS, num_workers).batches_per_epoch
    parts = [read(source, num_batches, worker, num_workers) for worker in range(num_workers)]
    joined = [join(of_batch) for of_batch in zip(*parts)]
    assert joined == read_all(source, num_batches, num_workers)
    stored = [
        utterances(batch)
        for batch, _ in input_fn.read_elements(input_fn.build_input_fn(source, SETTINGS, training=False))
    ]
    assert sorted(sum(joined, [])) == sorted(sum(stored, [])) and len(sum(joined, [])) == 120


@pytest.mark.parametrize("num_workers", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.long
def test_workers_resume_at_any_batch(source, num_workers):
    num_batches = source.bucket(SETTINGS, num_workers).batches_per_epoch
    whole = read_all(source, num_batches + 1, num_workers)  # the last batch belongs to the next epoch
    for index in (num_batches // 2, num_batches - 1):
        parts = [read(source, 2, worker, num_workers, index) for worker in range(num_workers)]
        assert [join(of_batch) for of_batch in zip(*parts)] == whole[index : index + 2]
        assert [each["seed"].tolist() for each in parts[0]] == [
            [3 + number // num_batches, number % num_batches] for number in (index, index + 1)
        ]


@pytest.mark.long
def test_as_many_replicas_on_other_machines_continue_with_the_same_batches(source):
    """Two workers of one replica continue where one machine with two replicas stopped."""
    parts = [read(source, 1, worker, 2, index=7)[0] for worker in range(2)]
    assert join(parts) == read_all(source, 8, 2)[7] != []


@pytest.mark.long
@pytest.mark.parametrize("num_workers", [2, 4])
def test_a_worker_reads_its_part_of_the_data(source, read_bytes, num_workers):
    settings = dataclasses.replace(SETTINGS, batch_frames=640)  # batches of 13 and more, without rounding
    num_batches = source.bucket(settings, num_workers).batches_per_epoch
    total = sum(shard.num_bytes for shard in source.shards)
    record_index.load(source, settings)
    for worker in range(num_workers):
        read_bytes.clear()
        read(source, num_batches, worker, num_workers, settings=settings)
        # Up to 4 finished and 2 unfinished batches of the next epoch are read ahead.
        ahead = 6 * settings.batch_frames / source.total_length
        assert 0.9 < num_workers * sum(read_bytes) / total < 1.1 + ahead


def test_a_record_that_is_damaged_after_indexing_raises_a_user_error(source):
    record_index.load(source, SETTINGS)
    path = source.shards[5].path
    with open(path, "r+b") as file:
        file.seek(500)
        file.write(b"\0\1\2\3")
    sentence = (
        rf"^DATA: a shard of split train is damaged \(corrupted record at 0 of {path}: the CRC of its data "
        r"is wrong\); to find the shard, run python -m tfrecord_builder.verify --data_dir=DATA; then copy "
        r"or build"
    )
    with pytest.raises(errors.UserError, match=sentence), splits.explain_damage(["DATA"], "train"):
        read(source, 80)


def test_a_shard_that_became_shorter_raises_a_user_error(source):
    record_index.load(source, SETTINGS)
    os.truncate(source.shards[0].path, 100)
    said = rf"corrupted record at \d+ of {source.shards[0].path}: expected \d+ bytes\)"
    with pytest.raises(errors.UserError, match=said), splits.explain_damage(["DATA"], "train"):
        read(source, 80)


def test_indexing_a_damaged_shard_raises_a_user_error(source):
    with open(source.shards[5].path, "r+b") as file:
        file.seek(500)
        file.write(b"\0\1\2\3")
    with (
        pytest.raises(errors.UserError, match="corrupted record at 12"),
        splits.explain_damage(["D"], "train"),
    ):
        read(source, 1)
    assert len(os.listdir(source.index_dir)) == 5  # the indexes of the shards before it are kept


@pytest.mark.long
def test_resuming_near_the_end_of_an_epoch_reads_only_the_remaining_records(source, read_bytes, monkeypatch):
    num_batches = source.bucket(SETTINGS).batches_per_epoch
    total = sum(shard.num_bytes for shard in source.shards)
    read(source, 1)
    read_only_index(monkeypatch)
    read_bytes.clear()
    read(source, 1, index=num_batches - 2)
    assert num_batches > 30 and 0 < sum(read_bytes) < 0.25 * total  # includes batches that are read ahead
    read_bytes.clear()
    input_fn.read_batch(source, source.bucket(SETTINGS), SETTINGS, (3, num_batches - 2))
    assert 0 < sum(read_bytes) < 0.25 * total
