import errno
import multiprocessing
import os
import pickle
import signal
import threading

import pytest
import small_corpora
import small_shards

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import shard_writer, sharding
from tfrecord_builder.building.engines import dispatch, local_engine, tasks
from tfrecord_builder.data import manifest, recordings
from tfrecord_builder.labels import labelling
from tfrecord_builder.program import lazy_tensorflow
from tfrecord_builder.storage import files

LABELS = labelling.Labels("你好", ("ni3", "hao3"), ("你", "好"))


def _items(directory, num_utterances=6):
    found = []
    for i in range(num_utterances):
        audio = small_corpora.write_audio(
            directory / f"{i}.wav", small_corpora.tone(0.3 + i / 10, 200 + 90 * i)
        )
        utterance = manifest.Utterance(f"u{i}", audio, "s", "", "", "train")
        found.append(sharding.LabelledUtterance(utterance, LABELS, sharding.file_signature(audio)))
    return found


def _settings(**changes):
    fields = dict(frontend=frontend.FrontendConfig(), fbank_dtype="float16", max_seconds=30.0)
    return sharding.Settings(**{"vocabularies": small_corpora.make_vocabularies(LABELS), **fields, **changes})


def _make_directory(path):
    path.mkdir()
    return str(path)


def _write(settings, directory):
    return shard_writer.RecordWriter(str(directory), settings).write


def _message(settings, directory, shard):
    """Returns what a worker process receives for a shard."""
    writer = shard_writer.RecordWriter(str(directory), settings)
    return tasks.make(writer, ()), pickle.dumps(shard)


def _write_shards(shards, settings, directory, num_workers):
    writer = shard_writer.RecordWriter(directory, settings)
    return small_shards.run_here(shards, writer, "building", num_workers)


def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path):
    found = _items(tmp_path / "audio")
    here, there = _make_directory(tmp_path / "here"), _make_directory(tmp_path / "there")
    shards = small_shards.write(found, 3, here)
    assert shards == small_shards.write(found, 3, there)
    expected = [_write(_settings(), here)(each, lambda done, rejected: None) for each in shards]
    assert _write_shards(shards, _settings(), there, num_workers=2) == expected
    for each in shards:
        assert (tmp_path / "there" / each.file).read_bytes() == (tmp_path / "here" / each.file).read_bytes()


def test_finished_shards_are_not_written_again(tmp_path, monkeypatch):
    shards = small_shards.write(_items(tmp_path), 3, tmp_path)
    expected = [_write(_settings(), tmp_path)(each, lambda done, rejected: None) for each in shards]
    started = []
    monkeypatch.setattr(local_engine, "_run", lambda count, task, units, *_: started.extend(units) or ())
    assert _write_shards(shards, _settings(), str(tmp_path), num_workers=2) == expected
    assert started == []


def test_a_worker_that_dies_before_it_reads_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(local_engine, "run_worker", os.getpid)  # a TypeError there: it takes nothing
    many = labelling.Labels("", tuple(f"token{i}" for i in range(100_000)), ())  # more than a pipe holds
    settings = _settings(vocabularies=small_corpora.make_vocabularies(many))
    shards = small_shards.write(_items(tmp_path, 2), 2, tmp_path)
    with pytest.raises(
        errors.UserError, match="the engine failed .a worker process ended with exit code 1.; see"
    ):
        _write_shards(shards, settings, str(tmp_path), num_workers=2)


def test_a_single_worker_is_this_process_and_reports_progress(tmp_path, monkeypatch):
    out, told = _make_directory(tmp_path / "out"), []

    def start():
        raise AssertionError("a process was started")

    monkeypatch.setattr(local_engine, "start_worker", start)
    monkeypatch.setattr(local_engine, "REPORT_SECONDS", 0)
    monkeypatch.setattr(dispatch._Progress, "note", lambda self, *message: told.append(message))
    found = _items(tmp_path)
    shards = small_shards.write(found, 3, out)
    written = _write_shards(shards, _settings(), out, num_workers=1)
    assert sum(each.num_records for each in written) == 6
    first = shards[0].file
    # After each of its two utterances, and when it is whole.
    assert [message for message in told if message[0] == first] == [
        (first, 1, 0),
        (first, 2, 0),
        (first, 2, 0),
    ]
    (last,) = small_shards.write(found, 1, out)
    assert _write_shards([last], _settings(), out, num_workers=8)[0].num_records == 6  # one shard


def test_a_single_worker_raises_user_errors(tmp_path):
    shards = small_shards.write(_items(tmp_path, 1), 1, tmp_path)
    (tmp_path / "0.wav").write_bytes(b"")
    with pytest.raises(errors.UserError, match="0.wav: the recording has changed since"):
        _write_shards(shards, _settings(), str(tmp_path), num_workers=1)


def test_ctrl_c_ends_a_worker_without_output(tmp_path, capfd):
    (planned,) = small_shards.write(_items(tmp_path, 1), 1, tmp_path)
    connection, process = local_engine.start_worker()
    connection.send(_message(_settings(), tmp_path, planned))
    while not isinstance(connection.recv(), tasks.Outcome):
        pass
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == -signal.SIGINT
    assert "Traceback" not in capfd.readouterr().err


def test_all_workers_are_started_before_units_are_sent(tmp_path, monkeypatch):
    events = []

    class Ended(BaseException):
        pass

    class Connection:
        def send(self, message):
            events.append("send")

    class Process:
        def terminate(self):
            events.append("terminate")

    def start():
        events.append("start")
        return Connection(), Process()

    def end(connections):
        raise Ended

    monkeypatch.setattr(local_engine, "start_worker", start)
    monkeypatch.setattr(local_engine.multiprocessing.connection, "wait", end)
    with pytest.raises(Ended):
        shards = small_shards.write(_items(tmp_path), 3, tmp_path)
        _write_shards(shards, _settings(), str(tmp_path), num_workers=2)
    assert events == ["start", "start", "send", "send", "terminate", "terminate"]


@pytest.mark.long
def test_units_of_a_killed_worker_run_again(tmp_path, monkeypatch):
    found, kills = _items(tmp_path / "audio"), []
    here, there = _make_directory(tmp_path / "here"), _make_directory(tmp_path / "there")
    shards = small_shards.write(found, 3, here)
    small_shards.write(found, 3, there)
    expected = [_write(_settings(), here)(each, lambda done, rejected: None) for each in shards]
    start = local_engine.start_worker

    def start_and_kill_the_first():
        connection, process = start()
        if not kills:
            kills.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
        return connection, process

    monkeypatch.setattr(local_engine, "start_worker", start_and_kill_the_first)
    assert _write_shards(shards, _settings(), there, num_workers=2) == expected
    assert len(kills) == 1


def test_a_broken_pipe_counts_as_a_dead_worker(monkeypatch):
    class Connection:
        def send(self, message):
            raise BrokenPipeError

        def recv(self):
            raise ConnectionResetError

    class Process:
        exitcode = -9

        def join(self):
            pass

    monkeypatch.setattr(local_engine, "start_worker", lambda: (Connection(), Process()))
    monkeypatch.setattr(local_engine.multiprocessing.connection, "wait", lambda connections: connections)
    with pytest.raises(ChildProcessError, match="a worker process ended with exit code -9"):
        list(local_engine._run(2, None, [b"one", b"two"], None))


@pytest.fixture
def keep_ctrl_c(monkeypatch):
    """Keeps a worker that runs in this process from changing its signal handlers."""
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)


def _text_shard(directory):
    utterances = [manifest.Utterance(f"t{i}", None, "news", "你好", "ni3 hao3", "train") for i in range(2)]
    (shard,) = small_shards.write(
        [sharding.LabelledUtterance(each, LABELS) for each in utterances], 1, directory
    )
    return shard


def _talk(directory, planned, config=None):
    """Returns what a worker sends for one shard, up to its outcome."""
    ours, theirs = multiprocessing.Pipe()
    messages = []

    def listen():
        ours.send(_message(_settings(frontend=config), directory, planned))
        messages.append(ours.recv())
        while isinstance(messages[-1], tuple):
            messages.append(ours.recv())
        ours.close()

    listener = threading.Thread(target=listen)
    listener.start()
    local_engine.run_worker(theirs)
    listener.join()
    return messages


def test_a_worker_sends_progress_then_its_outcome_and_ends_with_the_pipe(tmp_path, monkeypatch, keep_ctrl_c):
    monkeypatch.setattr(local_engine, "REPORT_SECONDS", 0)
    planned = _text_shard(tmp_path)
    first, second, outcome = _talk(tmp_path, planned)
    assert (first, second) == ((planned.file, 1, 0), (planned.file, 2, 0))
    assert outcome == tasks.Outcome(planned.file, 2, 0)


def test_a_directory_that_cannot_be_written(tmp_path, keep_ctrl_c):
    (outcome,) = _talk(tmp_path / "none", _text_shard(tmp_path))
    assert "none: train-00000-of-00001.tfrecord cannot be written" in outcome.problem


def test_ends_quietly_when_the_parent_is_gone(tmp_path, monkeypatch, keep_ctrl_c):
    monkeypatch.setattr(local_engine, "REPORT_SECONDS", 0)
    ours, theirs = multiprocessing.Pipe()
    ours.send(_message(_settings(frontend=None), tmp_path, _text_shard(tmp_path)))
    ours.close()
    local_engine.run_worker(theirs)  # its first report meets a broken pipe
    assert not (tmp_path / "train-00000-of-00001.tfrecord").exists()


def test_a_changed_recording_is_reported_as_such(tmp_path, keep_ctrl_c):
    gone = sharding.LabelledUtterance(
        manifest.Utterance("u", str(tmp_path / "a.wav"), "s", "", "", "train"), LABELS, (1, 2)
    )
    (planned,) = small_shards.write([gone], 1, tmp_path)
    (outcome,) = _talk(tmp_path, planned, frontend.FrontendConfig())
    assert "a.wav: the recording has changed since the corpus was listed" in outcome.problem


def _write_with(monkeypatch, directory, error):
    """Returns what is told when the recording of an utterance, which was there, fails with an error."""
    path = small_corpora.write_audio(directory / "a.wav", small_corpora.tone(0.5))
    there = sharding.LabelledUtterance(
        manifest.Utterance("u", path, "s", "", "", "train"), LABELS, sharding.file_signature(path)
    )
    (planned,) = small_shards.write([there], 1, directory)
    real = files.open_binary

    def open_binary(name):
        if name == path:
            raise error
        return real(name)

    monkeypatch.setattr(files, "open_binary", open_binary)
    return path, lambda: _write(_settings(), directory)(planned, lambda *_: None)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_failed_disk_of_a_recording_is_not_reported_as_a_full_disk(tmp_path, monkeypatch, number):
    path, write = _write_with(monkeypatch, tmp_path, OSError(number, "the reason"))
    with pytest.raises(errors.UserError, match=rf"^{path}: .*cannot be read \(the reason\)"):
        write()


def test_a_recording_that_may_not_be_read_is_rejected(tmp_path, monkeypatch):
    path, write = _write_with(monkeypatch, tmp_path, PermissionError(errno.EACCES, "Permission denied"))
    assert write().rejected == [["u", "train", "unreadable audio", path]]


def test_unreadable_items_are_not_reported_as_a_full_disk(tmp_path, keep_ctrl_c):
    planned = _text_shard(tmp_path)
    (tmp_path / recordings.path_of(planned.file)).unlink()
    (outcome,) = _talk(tmp_path, planned)
    assert outcome.problem.startswith(
        f"{tmp_path}/train-00000-of-00001.jsonl: cannot be read (No such file or directory); check the disk"
    )


def test_a_failed_object_store_is_reported_with_the_recording(monkeypatch, tmp_path):
    def fail(path, *_):
        raise OSError(errno.EIO, "there is no such bucket", path)

    monkeypatch.setattr(files, "open_binary", fail)
    monkeypatch.setattr(sharding, "file_signature", lambda audio: None)
    item = sharding.LabelledUtterance(
        manifest.Utterance("u", "s3://nobody/a.wav", "s", "", "", "train"), LABELS
    )
    with pytest.raises(errors.UserError, match=r"s3://nobody/a.wav: cannot be read \(there is no such b"):
        shard_writer.make_record(item, _settings())


def test_ctrl_c_does_not_load_tensorflow(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    def load(name):
        raise AssertionError("TensorFlow is loaded")

    monkeypatch.setattr(shard_writer.RecordWriter, "replace", interrupt)
    monkeypatch.setattr(lazy_tensorflow, "__getattr__", load)
    with pytest.raises(KeyboardInterrupt):
        _write(None, tmp_path)(_text_shard(tmp_path), lambda *_: None)
