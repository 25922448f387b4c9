import contextlib
import errno
import os
import signal

import pytest

from estimator_asr.training import directory_lock
from estimator_asr.training.distributed import cluster
from tfrecord_builder import errors
from tfrecord_builder.storage import locks


def lock_once(model_dir):
    with directory_lock.lock_directory(str(model_dir)):
        pass


def test_a_second_training_is_refused_until_the_first_has_ended(tmp_path):
    with directory_lock.lock_directory(str(tmp_path)), pytest.raises(errors.UserError) as refusal:
        lock_once(tmp_path)
    said = f"another training run is using {tmp_path}; wait for it to end, or choose another directory"
    assert str(refusal.value) == f"--model_dir: {said}"
    lock_once(tmp_path)


def test_a_training_that_was_killed_leaves_no_lock_behind(tmp_path):
    ready, tell = os.pipe()
    pid = os.fork()
    if not pid:
        with directory_lock.lock_directory(str(tmp_path)):
            os.write(tell, b"x")
            signal.pause()
    os.read(ready, 1)
    with pytest.raises(errors.UserError, match="another training run is using"):
        lock_once(tmp_path)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with directory_lock.lock_directory(str(tmp_path)):
        assert os.listdir(tmp_path) == ["training.lock"]


def test_the_chief_of_a_cluster_waits_for_the_lock_of_the_one_that_died(tmp_path, monkeypatch, log):
    first, waits = directory_lock.lock_directory(str(tmp_path)), []
    first.__enter__()

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            first.__exit__(None, None, None)

    monkeypatch.setattr(locks.time, "sleep", sleep)
    with directory_lock.lock_directory(str(tmp_path), wait_seconds=60.0):
        assert waits == [1.0, 1.0, 1.0]
    lock = tmp_path / "training.lock"
    assert log == [f"{lock} is locked by another process; waiting for at most 60 seconds"]


@pytest.mark.parametrize("files", [[], ["config.json"]])
def test_a_new_directory_is_removed_if_the_run_is_refused_unless_it_has_files(tmp_path, files):
    with pytest.raises(errors.UserError, match="no labels"):
        with directory_lock.lock_directory(str(tmp_path / "am")):
            for name in files:
                (tmp_path / "am" / name).touch()
            raise errors.UserError("no labels")
    assert (tmp_path / "am").exists() == bool(files)


def test_a_lock_that_another_process_removed_meanwhile_is_not_taken(tmp_path, monkeypatch):
    flock = locks.fcntl.flock

    def remove(*arguments):
        flock(*arguments)
        os.remove(tmp_path / "training.lock")

    monkeypatch.setattr(locks.fcntl, "flock", remove)
    with pytest.raises(errors.UserError, match="another training run is using"):
        lock_once(tmp_path)


def test_training_works_on_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuse(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    with directory_lock.lock_directory(str(tmp_path)):
        lock_once(tmp_path)


@pytest.mark.parametrize(
    "name, content",
    [
        ("dataset_info.json", "data (dataset_info.json)"),
        ("saved_model.pb", "an export (saved_model.pb)"),
        ("1763000000/saved_model.pb", "exports (1763000000/saved_model.pb)"),
    ],
)
def test_a_directory_that_holds_data_or_exports_is_refused(tmp_path, name, content):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(errors.UserError) as refusal:
        directory_lock.check_usable(str(tmp_path))
    advice = "so it is not a model directory; choose a model directory or a new path. Nothing was changed."
    assert str(refusal.value) == f"--model_dir: {tmp_path} holds {content}, {advice}"


def test_a_directory_of_best_checkpoints_is_refused(tmp_path):
    (tmp_path / "best_checkpoints.json").touch()
    with pytest.raises(errors.UserError, match="holds the best checkpoints of another model directory"):
        directory_lock.check_usable(str(tmp_path))


def test_a_file_as_model_directory_is_refused(tmp_path):
    (tmp_path / "AM").touch()
    said = "--model_dir: .*/AM is a file, not a directory; choose another path"
    with pytest.raises(errors.UserError, match=said):
        directory_lock.check_usable(str(tmp_path / "AM"))


def test_a_new_directory_and_a_model_directory_with_its_own_exports_are_usable(tmp_path):
    (tmp_path / "export" / "best" / "1763000000").mkdir(parents=True)
    (tmp_path / "export" / "best" / "1763000000" / "saved_model.pb").touch()
    directory_lock.check_usable(str(tmp_path))
    directory_lock.check_usable(str(tmp_path / "new"))


@pytest.mark.parametrize(
    "rank, kept",
    [(None, []), (0, ["tmp_worker_0", "tmp_worker_1"]), (1, ["tmp_worker_1"]), (2, ["tmp_worker_0"])],
)
def test_checkpoints_of_workers_are_removed_unless_the_worker_may_be_alive(tmp_path, rank, kept):
    three = None if rank is None else cluster.Cluster(("a:1", "b:1", "c:1"), None, rank)
    kept = ["best", "worker-1", *kept]
    for name in ("best", "worker-1", "tmp_worker_0", "tmp_worker_1", "tmp_worker_2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.ckpt-7.index").touch()
    with contextlib.suppress(ZeroDivisionError), directory_lock.clear_copies(str(tmp_path), three):
        assert sorted(os.listdir(tmp_path)) == sorted(kept)
        (tmp_path / f"tmp_worker_{(rank or 4) - 1}").mkdir()  # TensorFlow creates it
        raise ZeroDivisionError
    assert sorted(os.listdir(tmp_path)) == sorted(kept)
