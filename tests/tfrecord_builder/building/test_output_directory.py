import contextlib
import errno
import os

import pytest

from tfrecord_builder import errors
from tfrecord_builder.building import output_directory
from tfrecord_builder.data import dataset_info

KILLED = 9
COMPANIONS = ("tokens.txt", "characters.txt", "readings.tsv", "rejected.tsv")


def _info(*files):
    shards = tuple(dataset_info.ShardInfo(file, 1, 3, "s") for file in files)
    split = dataset_info.SplitInfo(1, 1, 1.0, 1, 1, 0, 0, {5: 1}, {1: 1}, shards)
    return dataset_info.DatasetInfo(None, "float16", "syllable", "t", "c", "r", (), (), {"train": split}, 0)


def _build(output_dir, content, *files, overwrite=False, stop_before_publishing=False):
    with output_directory.reserve(str(output_dir), overwrite):
        directory = output_directory.start(str(output_dir), f"plan {content}", overwrite)
        for name in (*files, *COMPANIONS):
            with open(os.path.join(directory, name), "w") as file:
                file.write(content)
        if not stop_before_publishing:
            output_directory.publish(str(output_dir), _info(*files))


def test_a_build_is_published_as_a_whole(tmp_path):
    output_dir = tmp_path / "new" / "data"
    _build(output_dir, "one", "a", "b", stop_before_publishing=True)
    assert os.listdir(output_dir) == [".build"]
    _build(output_dir, "one", "a", "b")
    assert sorted(os.listdir(output_dir)) == sorted(["a", "b", "dataset_info.json", *COMPANIONS])


def _killed_while_publishing(output_dir, steps, *files, overwrite):
    """Builds in a process that exits at the given file system call; returns True if it got that far."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == KILLED
    done = iter(range(steps))
    for name in ("replace", "remove", "unlink", "rmdir", "mkdir"):
        setattr(output_directory.os, name, _count(getattr(os, name), done))
    _build(output_dir, "two", *files, overwrite=overwrite)
    os._exit(0)


def _count(function, done):
    def counted(*arguments, **options):
        if next(done, None) is None:
            os._exit(KILLED)
        return function(*arguments, **options)

    return counted


@pytest.mark.long
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("again", ["two", "three"])
def test_a_build_killed_at_any_step_continues_and_leaves_no_other_files(tmp_path, overwrite, again):
    steps, was_killed = 0, True
    while was_killed:
        output_dir = tmp_path / str(steps)
        if overwrite:
            _build(output_dir, "one", "a", "b")
        was_killed = _killed_while_publishing(output_dir, steps, "b", "c", overwrite=overwrite)
        other, replaces = ("d", True) if again == "three" else ("c", overwrite)
        with contextlib.suppress(errors.UserError):  # the killed build had finished
            _build(output_dir, again, "b", other, overwrite=replaces)
        content = (output_dir / "b").read_text()
        expected = {"one": ["a", "b"], "two": ["b", "c"], "three": ["b", "d"]}[content]
        assert sorted(os.listdir(output_dir)) == sorted([*expected, "dataset_info.json", *COMPANIONS])
        assert dataset_info.DatasetInfo.load(str(output_dir)) == _info(*expected)
        steps += 1
    assert steps > 15


def test_incomplete_files_of_a_killed_build_are_removed(tmp_path):
    _build(tmp_path, "one", "a", "b.123.incomplete", stop_before_publishing=True)
    with output_directory.reserve(str(tmp_path), False):
        directory = output_directory.start(str(tmp_path), "plan one", False)
        assert sorted(os.listdir(directory)) == sorted(["a", "plan", *COMPANIONS])


def test_a_finished_build_is_refused_without_overwrite(tmp_path):
    _build(tmp_path, "one", "a")
    with pytest.raises(errors.UserError, match="contains a finished build; pass --overwrite"):
        _build(tmp_path, "two", "a")
    assert (tmp_path / "a").read_text() == "one"


def test_overwrite_keeps_old_data_until_the_new_are_complete_and_removes_only_its_files(tmp_path):
    _build(tmp_path, "one", "a", "b")
    (tmp_path / "notes.txt").write_text("mine")
    _build(tmp_path, "two", "b", "c", overwrite=True, stop_before_publishing=True)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text() == "one"
    assert dataset_info.DatasetInfo.load(str(tmp_path)) == _info("a", "b")
    _build(tmp_path, "two", "b", "c", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == sorted(["b", "c", "dataset_info.json", "notes.txt", *COMPANIONS])
    assert (tmp_path / "b").read_text() == "two"


@pytest.mark.parametrize("fingerprint", [b"plan two", b"\xff"])
def test_only_overwrite_removes_an_interrupted_build_with_another_fingerprint(tmp_path, fingerprint):
    _build(tmp_path, "one", "a", stop_before_publishing=True)
    (tmp_path / ".build" / "plan").write_bytes(fingerprint)
    with pytest.raises(errors.UserError, match="a different corpus or different flags.*--overwrite"):
        _build(tmp_path, "one", "a")
    with output_directory.reserve(str(tmp_path), True):
        directory = output_directory.start(str(tmp_path), "plan one", overwrite=True)
        assert os.listdir(directory) == ["plan"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_directories_without_a_build_are_never_touched(tmp_path, overwrite):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(errors.UserError, match="contains thesis.txt, but no build; choose an empty or a new"):
        _build(tmp_path, "one", "a", overwrite=overwrite)
    (tmp_path / "dataset_info.json").write_text('{"of": "another program"}')
    (tmp_path / "folder" / "dataset_info.json").mkdir(parents=True)
    for output_dir in (tmp_path, tmp_path / "folder"):
        with pytest.raises(errors.UserError, match="dataset_info.json that this version cannot read"):
            _build(output_dir, "one", "a", overwrite=overwrite)
    assert sorted(os.listdir(tmp_path)) == ["dataset_info.json", "folder", "thesis.txt"]


def test_a_file_in_the_path_of_the_output_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UserError, match="file is a file; choose a directory"):
        _build(tmp_path / "file", "one", "a")
    with pytest.raises(errors.UserError, match="cannot be created"):
        _build(tmp_path / "file" / "below", "one", "a")


def test_a_directory_without_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root would have every permission
    message = f"--output_dir: {tmp_path} must be readable and writable; change"
    with pytest.raises(errors.UserError, match=message):
        _build(tmp_path, "one", "a")


@pytest.mark.parametrize("function", ["makedirs", "replace"])
def test_a_disk_that_is_full_or_read_only(tmp_path, monkeypatch, function):
    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(errors.UserError) as caught:
        with output_directory.reserve(str(tmp_path), overwrite=False):
            monkeypatch.setattr(os, function, fail)
            output_directory.start(str(tmp_path), "plan", overwrite=False)
            output_directory.publish(str(tmp_path), _info())
    assert str(caught.value) == (
        f"--output_dir: {tmp_path} cannot be written to (No space left on device); "
        "free some space or fix the permissions, then run the build again: finished shards are kept."
    )
    monkeypatch.undo()
    _build(tmp_path, "one", "a", overwrite=True)  # the lock has been released


def test_a_second_build_into_the_same_directory_is_refused(tmp_path):
    with output_directory.reserve(str(tmp_path / "new"), False):
        with pytest.raises(errors.UserError, match="another build is writing"):
            _build(tmp_path / "new", "two", "a")
        assert (tmp_path / "new").is_dir()
    assert os.listdir(tmp_path) == []
    _build(tmp_path / "new", "two", "a")


def test_the_file_of_a_failed_build_is_not_next_to_finished_data(tmp_path):
    find, output_dir = output_directory.failure_path, str(tmp_path)
    assert find(output_dir, "rejected.tsv") == f"{output_dir}/rejected.tsv"
    _build(tmp_path, "one", "a")
    assert find(output_dir, "rejected.tsv") == f"{output_dir}/.build/rejected.tsv"
