import errno
import multiprocessing
import signal
import threading

import pytest
import small_corpora
import small_shards

from tfrecord_builder import errors, files, frontend, lazy_tensorflow, manifest
from tfrecord_builder.building import items, shard_statistics, shard_writer, sharding, worker
from tfrecord_builder.labels import labelling

LABELS = labelling.Labels("你好", ("ni3", "hao3"), ("你", "好"))
UTTERANCES = [manifest.Utterance(f"t{i}", None, "news", "你好", "ni3 hao3", "train") for i in range(2)]


@pytest.fixture(autouse=True)
def keep_ctrl_c(monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)


def _shard(directory):
    (shard,) = small_shards.write([items.Item(each, LABELS) for each in UTTERANCES], 1, directory)
    return shard


def _talk(directory, planned, config=None):
    """Gives what a worker says when it is sent the settings and one shard, until its answer."""
    ours, theirs = multiprocessing.Pipe()
    messages = []

    def listen():
        ours.send(sharding.Settings(small_corpora.make_vocabularies(LABELS), config, "float16", 30.0))
        ours.send(planned)
        messages.append(ours.recv())
        while isinstance(messages[-1], tuple):
            messages.append(ours.recv())
        ours.close()

    listener = threading.Thread(target=listen)
    listener.start()
    worker.run(theirs, str(directory))
    listener.join()
    return messages


def test_tells_how_far_it_is_then_what_it_counted_and_ends_with_the_pipe(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    planned = _shard(tmp_path)
    first, second, statistics = _talk(tmp_path, planned)
    assert (first, second) == ((planned.file, 1, 0), (planned.file, 2, 0))
    assert (statistics.file, statistics.num_records) == (planned.file, 2)


def test_a_directory_that_cannot_be_written(tmp_path):
    (error,) = _talk(tmp_path / "none", _shard(tmp_path))
    assert isinstance(error, errors.UserError)
    assert "none: train-00000-of-00001.tfrecord cannot be written" in str(error)


def test_a_full_disk(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shard_statistics.ShardStatistics, "save", fail)
    error = _talk(tmp_path, _shard(tmp_path))[-1]
    assert isinstance(error, errors.UserError)
    assert str(error) == (
        f"{tmp_path}: train-00000-of-00001.tfrecord cannot be written (No space left on device), "
        "expected room and permission; make room and call the build again: finished shards are kept."
    )


def test_ends_quietly_when_the_parent_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0.0)
    ours, theirs = multiprocessing.Pipe()
    ours.send(sharding.Settings(small_corpora.make_vocabularies(LABELS), None, "float16", 30.0))
    ours.send(_shard(tmp_path))
    ours.close()
    worker.run(theirs, str(tmp_path))  # its first report meets a broken pipe
    assert not (tmp_path / "train-00000-of-00001.tfrecord").exists()


def test_a_recording_that_changed_is_told_as_it_is(tmp_path):
    gone = items.Item(manifest.Utterance("u", str(tmp_path / "a.wav"), "s", "", "", "train"), LABELS, (1, 2))
    (planned,) = small_shards.write([gone], 1, tmp_path)
    (error,) = _talk(tmp_path, planned, frontend.FrontendConfig())
    assert "a.wav: the recording is not what it was when the corpus was listed" in str(error)


def _write_with(monkeypatch, directory, error):
    """Returns what is told when the recording of an utterance, which was there, fails with an error."""
    path = small_corpora.write_audio(directory / "a.wav", small_corpora.tone(0.5))
    there = items.Item(manifest.Utterance("u", path, "s", "", "", "train"), LABELS, items.stamp(path))
    (planned,) = small_shards.write([there], 1, directory)
    real = files.open_binary

    def open_binary(name):
        if name == path:
            raise error
        return real(name)

    monkeypatch.setattr(files, "open_binary", open_binary)
    settings = sharding.Settings(
        small_corpora.make_vocabularies(LABELS), frontend.FrontendConfig(), "float16", 30.0
    )
    return path, worker.write(planned, settings, str(directory), lambda done, rejected: None)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_recording_whose_disk_fails_is_not_told_as_a_full_disk(tmp_path, monkeypatch, number):
    path, error = _write_with(monkeypatch, tmp_path, OSError(number, "the reason"))
    assert isinstance(error, errors.UserError)
    assert str(error) == (
        f"{path}: it cannot be read (the reason), expected its disk or store to answer; "
        "check them and call the program again: finished shards are kept."
    )


def test_a_recording_that_may_not_be_read_is_rejected(tmp_path, monkeypatch):
    path, statistics = _write_with(monkeypatch, tmp_path, PermissionError(errno.EACCES, "Permission denied"))
    assert statistics.rejected == [["u", "train", "unreadable audio", path]]


def test_items_that_cannot_be_read_are_not_told_as_a_full_disk(tmp_path):
    planned = _shard(tmp_path)
    (tmp_path / items.path_of(planned.file)).unlink()
    (error,) = _talk(tmp_path, planned)
    assert str(error).startswith(
        f"{tmp_path}/train-00000-of-00001.jsonl: it cannot be read (No such file or directory), expected its"
    )


def test_an_object_store_that_fails_is_told_with_the_recording(monkeypatch, tmp_path):
    def fail(path, *_):
        raise OSError(errno.EIO, "there is no such bucket", path)

    monkeypatch.setattr(files, "open_binary", fail)
    monkeypatch.setattr(items, "stamp", lambda audio: None)
    item = items.Item(manifest.Utterance("u", "s3://nobody/a.wav", "s", "", "", "train"), LABELS)
    settings = sharding.Settings(
        small_corpora.make_vocabularies(LABELS), frontend.FrontendConfig(), "float16", 30.0
    )
    with pytest.raises(errors.UserError, match=r"s3://nobody/a.wav: it cannot be read \(there is no such b"):
        shard_writer.make_record(item, settings)


def test_ctrl_c_does_not_load_tensorflow(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    def load(name):
        raise AssertionError("TensorFlow is loaded")

    monkeypatch.setattr(shard_writer, "write_shard", interrupt)
    monkeypatch.setattr(lazy_tensorflow, "__getattr__", load)
    with pytest.raises(KeyboardInterrupt):
        worker.write(_shard(tmp_path), None, str(tmp_path), lambda done, rejected: None)
