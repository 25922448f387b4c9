import errno
import os

import pytest

from tfrecord_builder.storage import directories


def _write(path, content):
    with open(os.path.join(path, "file"), "w") as file:
        file.write(content)


def test_a_directory_is_replaced_when_the_block_succeeds(tmp_path):
    path = tmp_path / "new" / "model"
    for content in ("one", "two"):
        with directories.writing(str(path)) as incomplete:
            assert os.listdir(incomplete) == []
            _write(incomplete, content)
            assert not path.exists() or (path / "file").read_text() == "one"
        assert os.listdir(path.parent) == ["model"] and (path / "file").read_text() == content


def test_a_failed_or_killed_process_leaves_the_old_directory_alone(tmp_path):
    path = tmp_path / "model"
    (tmp_path / "model.incomplete").mkdir()  # a leftover from a killed process
    _write(tmp_path / "model.incomplete", "half")
    with directories.writing(str(path)) as incomplete:
        _write(incomplete, "one")
    with pytest.raises(KeyError), directories.writing(str(path)) as incomplete:
        _write(incomplete, "two")
        raise KeyError
    assert os.listdir(tmp_path) == ["model"] and (path / "file").read_text() == "one"


def test_a_failed_rename_keeps_the_old_directory(tmp_path, monkeypatch):
    def rename(source, target):
        if source.endswith(".incomplete"):
            raise OSError(errno.EIO, "input/output error")
        os.replace(source, target)

    path = tmp_path / "model"
    path.mkdir()
    _write(path, "one")
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="input/output"), directories.writing(str(path)) as incomplete:
        _write(incomplete, "two")
    assert (tmp_path / "model.replaced" / "file").read_text() == "one"
    monkeypatch.undo()
    with directories.writing(str(path)) as incomplete:
        _write(incomplete, "two")
    assert os.listdir(tmp_path) == ["model"] and (path / "file").read_text() == "two"


def test_a_temporary_directory_is_removed_unless_it_was_moved(tmp_path):
    for name in ("kept", None):
        with directories.temporary(str(tmp_path / "temporary")) as path:
            _write(path, "one")
            if name:
                os.rename(path, tmp_path / name)
    assert os.listdir(tmp_path) == ["kept"]
