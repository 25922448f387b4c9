import os
import signal

import pytest
import small_corpora
import small_shards

from tfrecord_builder import errors, frontend, manifest
from tfrecord_builder.building import items, shard_statistics, shard_writer, sharding, worker_pool
from tfrecord_builder.labels import labelling

LABELS = labelling.Labels("你好", ("ni3", "hao3"), ("你", "好"))


def _items(directory, num_utterances=6):
    found = []
    for i in range(num_utterances):
        audio = small_corpora.write_audio(
            directory / f"{i}.wav", small_corpora.tone(0.3 + i / 10, 200 + 90 * i)
        )
        utterance = manifest.Utterance(f"u{i}", audio, "s", "", "", "train")
        found.append(items.Item(utterance, LABELS, items.stamp(audio)))
    return found


def _settings(**changes):
    fields = dict(frontend=frontend.FrontendConfig(), fbank_dtype="float16", max_seconds=30.0)
    return sharding.Settings(**{"vocabularies": small_corpora.make_vocabularies(LABELS), **fields, **changes})


def _make_directory(path):
    path.mkdir()
    return str(path)


def test_number_of_workers_changes_no_byte(tmp_path):
    found = _items(tmp_path / "audio")
    here, there = _make_directory(tmp_path / "here"), _make_directory(tmp_path / "there")
    shards = small_shards.write(found, 3, here)
    assert shards == small_shards.write(found, 3, there)
    expected = [
        shard_writer.write_shard(each, _settings(), here, lambda done, rejected: None) for each in shards
    ]
    assert worker_pool.write_shards(shards, _settings(), there, num_workers=2) == expected
    for each in shards:
        assert (tmp_path / "there" / each.file).read_bytes() == (tmp_path / "here" / each.file).read_bytes()


def test_finished_shards_are_not_written_again(tmp_path, monkeypatch):
    shards = small_shards.write(_items(tmp_path), 3, tmp_path)
    expected = [
        shard_writer.write_shard(each, _settings(), str(tmp_path), lambda done, rejected: None)
        for each in shards
    ]
    started = []
    monkeypatch.setattr(worker_pool, "_run_workers", lambda waiting, *args: started.extend(waiting) or ())
    assert worker_pool.write_shards(shards, _settings(), str(tmp_path), num_workers=2) == expected
    assert started == []


def test_a_worker_that_dies_is_noticed(tmp_path, capfd, monkeypatch):
    settings, out = _settings(frontend="broken"), _make_directory(tmp_path / "out")
    shards = small_shards.write(_items(tmp_path, 2), 2, out)
    with pytest.raises(
        errors.UserError, match="a worker process ended with code 1 before its shard was whole"
    ):
        worker_pool.write_shards(shards, settings, out, num_workers=2)
    assert "has no attribute" in capfd.readouterr().err


def test_a_worker_that_dies_before_it_reads_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(
        worker_pool.worker, "run", os.getpid
    )  # a TypeError in the other process: it takes nothing
    many = labelling.Labels("", tuple(f"token{i}" for i in range(100_000)), ())  # more than a pipe holds
    settings = _settings(vocabularies=small_corpora.make_vocabularies(many))
    shards = small_shards.write(_items(tmp_path, 2), 2, tmp_path)
    with pytest.raises(errors.UserError, match="a worker process ended with code 1 before its shard"):
        worker_pool.write_shards(shards, settings, str(tmp_path), num_workers=2)


def test_one_worker_is_this_process_and_tells_how_far_it_is(tmp_path, monkeypatch):
    out, told = _make_directory(tmp_path / "out"), []

    def start(directory):
        raise AssertionError("a process was started")

    monkeypatch.setattr(worker_pool, "_start_worker", start)
    monkeypatch.setattr(worker_pool.worker, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(worker_pool._Progress, "note", lambda self, *message: told.append(message))
    found = _items(tmp_path)
    shards = small_shards.write(found, 3, out)
    written = worker_pool.write_shards(shards, _settings(), out, num_workers=1)
    assert sum(each.num_records for each in written) == 6
    first = shards[0].file
    # After each of its two utterances, and when it is whole.
    assert [message for message in told if message[0] == first] == [
        (first, 1, 0),
        (first, 2, 0),
        (first, 2, 0),
    ]
    (last,) = small_shards.write(found, 1, out)
    assert worker_pool.write_shards([last], _settings(), out, num_workers=8)[0].num_records == 6  # one shard


def test_one_worker_raises_what_the_user_must_know(tmp_path):
    shards = small_shards.write(_items(tmp_path, 1), 1, tmp_path)
    (tmp_path / "0.wav").write_bytes(b"")
    with pytest.raises(errors.UserError, match="0.wav: the recording is not what it was"):
        worker_pool.write_shards(shards, _settings(), str(tmp_path), num_workers=1)


def test_ctrl_c_ends_a_worker_without_a_word(tmp_path, capfd):
    (planned,) = small_shards.write(_items(tmp_path, 1), 1, tmp_path)
    connection, process = worker_pool._start_worker(str(tmp_path))
    connection.send(_settings())
    connection.send(planned)
    while not isinstance(connection.recv(), shard_statistics.ShardStatistics):
        pass
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == -signal.SIGINT
    assert "Traceback" not in capfd.readouterr().err


def test_all_workers_are_started_before_any_is_sent_anything(tmp_path, monkeypatch):
    events = []

    class Ended(Exception):
        pass

    class Connection:
        def send(self, message):
            events.append(type(message).__name__)

    class Process:
        def terminate(self):
            events.append("terminate")

    def start(directory):
        events.append("start")
        return Connection(), Process()

    def end(connections):
        raise Ended

    monkeypatch.setattr(worker_pool, "_start_worker", start)
    monkeypatch.setattr(worker_pool.multiprocessing.connection, "wait", end)
    with pytest.raises(Ended):
        shards = small_shards.write(_items(tmp_path), 3, tmp_path)
        worker_pool.write_shards(shards, _settings(), str(tmp_path), num_workers=2)
    sent = ["Settings", "Shard"]
    assert events == ["start", "start", *sent, *sent, "terminate", "terminate"]


def test_a_pipe_that_breaks_is_a_worker_that_died():
    class Connection:
        def recv(self):
            raise ConnectionResetError

    class Process:
        exitcode = -9

        def join(self):
            pass

    with pytest.raises(errors.UserError, match="a worker process ended with code -9 before its shard"):
        worker_pool._receive(Connection(), Process())
