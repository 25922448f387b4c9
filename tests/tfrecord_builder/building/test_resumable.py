import errno
import functools
import hashlib
import os

import pytest
import text_units

from tfrecord_builder import errors
from tfrecord_builder.building import resumable
from tfrecord_builder.program import lazy_tensorflow
from tfrecord_builder.storage import files

ONE, TWO = (text_units.TextUnit("a.txt", text) for text in ("one", "two"))


@pytest.fixture
def writer(tmp_path):
    return text_units.TextWriter(str(tmp_path))


def _ignore(done, rejected):
    pass


def _fail(error):
    """Returns a function that raises the error."""

    def fail(*_):
        raise error

    return fail


def test_a_finished_shard_is_found_unless_it_is_truncated_or_has_other_settings(writer, tmp_path):
    assert writer.find_finished(ONE) is None
    written = writer.write(ONE, _ignore)
    assert (written.num_bytes, written.sha256) == (3, hashlib.sha256(b"one").hexdigest())
    assert writer.find_finished(ONE) == written
    assert writer.find_finished(TWO) is None
    (tmp_path / "a.txt").write_text("on")
    assert writer.find_finished(ONE) is None
    (tmp_path / "a.txt").unlink()
    assert writer.find_finished(ONE) is None


def test_the_json_is_written_after_the_shard_is_synced_without_reading_it(writer, monkeypatch):
    steps = []
    for name in ("fsync", "replace"):
        note = functools.partial(lambda name, call, *args: steps.append(name) or call(*args), name)
        monkeypatch.setattr(os, name, functools.partial(note, getattr(os, name)))
    writer.write(ONE, _ignore)
    assert steps == ["fsync", "replace", "replace"]  # sync and rename the shard, rename its JSON file
    monkeypatch.setattr(files, "sha256", None)
    assert writer.find_finished(ONE).num_records == 1


@pytest.mark.parametrize("content", ["", '{"file": "a.t', '{"of": "another version"}', "[]"])
def test_a_shard_whose_json_cannot_be_read_is_written_again(writer, tmp_path, content):
    writer.write(ONE, _ignore)
    (tmp_path / "a.txt.json").write_text(content)
    assert writer.find_finished(ONE) is None


def test_the_json_of_an_earlier_shard_is_removed_first(writer, tmp_path, monkeypatch):
    writer.write(ONE, _ignore)
    with monkeypatch.context() as patch:
        patch.setattr(resumable.ShardReceipt, "save", _fail(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            writer.write(TWO, _ignore)
    assert (tmp_path / "a.txt").read_text() == "two"
    assert writer.find_finished(ONE) is None


def test_a_failed_shard_leaves_no_files(writer, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        writer.write(ONE, _fail(KeyboardInterrupt))
    assert os.listdir(tmp_path) == []


def test_a_full_disk(writer, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "sync", _fail(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(errors.UserError) as caught:
        writer.write(ONE, _ignore)
    assert str(caught.value) == (
        f"{tmp_path}: a.txt cannot be written (No space left on device); "
        "free some space or fix the permissions, then run the same command again: finished work is kept."
    )


def test_a_file_elsewhere_that_cannot_be_written_is_named(writer):
    error = OSError(errno.EACCES, "Permission denied", "/elsewhere/a.srt")
    message = r"^/elsewhere: a\.srt cannot be written \(Permission denied\)"
    with pytest.raises(errors.UserError, match=message):
        writer.write(ONE, _fail(error))


@pytest.mark.parametrize("error", [errors.UserError("u1: cannot be spoken"), KeyboardInterrupt()])
def test_user_errors_and_ctrl_c_do_not_load_tensorflow(writer, monkeypatch, error):
    monkeypatch.setattr(lazy_tensorflow, "__getattr__", _fail(AssertionError("TensorFlow is loaded")))
    with pytest.raises(type(error)) as caught:
        writer.write(ONE, _fail(error))
    assert caught.value is error
