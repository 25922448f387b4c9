"""Versions in an export directory: new versions take over, damaged versions do not."""

import asyncio
import errno
import os
import shutil
import threading
import time

import local_server
import numpy as np
import programs
import pytest

from estimator_asr.serving.server import metrics, versions
from tfrecord_builder import errors


@pytest.fixture
def server(export_dir, monkeypatch):
    monkeypatch.setattr(versions, "POLL_SECONDS", 0.1)
    with local_server.serve(export_dir) as started:
        yield started


def add_version(export_dir, number):
    shutil.copytree(export_dir / "1", export_dir / f"incomplete-{number}")
    os.rename(export_dir / f"incomplete-{number}", export_dir / str(number))


def list_failures(caplog):
    return [message for message in caplog.messages if "still serving version" in message]


@pytest.mark.long
def test_a_new_version_takes_over_without_an_error(export_dir, server):
    noise = np.random.default_rng(1).normal(0, 0.1, 8000).round(4).tolist()
    content = {"signature_name": "waveform", "instances": [{"waveform": noise, "num_samples": 8000}]}
    first, found, is_done = server.parts.versions.current, [], threading.Event()

    def ask():
        while not is_done.is_set():
            found.append(server.predict(content))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    add_version(export_dir, 2)
    programs.wait_until(lambda: server.parts.versions.current is not first)
    num_before = len(found)
    programs.wait_until(lambda: len(found) > num_before + 6)
    is_done.set()
    for thread in threads:
        thread.join()
    assert {each.status_code for each in found} == {200}
    assert len({each.json()["predictions"][0]["transcript"] for each in found}) == 1
    assert server.get("/healthz").json()["version"] == "2"
    assert server.get("/v1/models/asr/versions/1").status_code == 404
    with pytest.raises(RuntimeError, match="closed"):
        first.run("waveform", (), [first.make_probe()])


@pytest.mark.long
def test_a_version_that_does_not_load_is_logged_once(export_dir, server, caplog):
    damaged = export_dir / "incomplete-3"
    shutil.copytree(export_dir / "1", damaged)
    (damaged / "assets" / "tokens.txt").write_text("x")
    os.rename(damaged, export_dir / "3")
    programs.wait_until(lambda: caplog.messages)
    time.sleep(0.5)
    (message,) = caplog.messages
    assert message.startswith(f"{export_dir / '3' / 'assets' / 'tokens.txt'} is damaged: ")
    assert message.endswith("; still serving version 1")
    assert server.get("/healthz").json()["version"] == "1"


@pytest.mark.long
def test_a_removed_export_directory_changes_nothing(export_dir, server):
    shutil.move(export_dir, export_dir.with_name("gone"))
    time.sleep(0.5)
    assert server.get("/healthz").json()["version"] == "1"


@pytest.mark.long
def test_a_disk_that_fails_does_not_end_the_watch(export_dir, server, monkeypatch, caplog):
    def fail(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(versions.recogniser, "list_versions", fail)
        message = f"{export_dir}: cannot list the versions (Input/output error); still serving version 1"
        programs.wait_until(lambda: message in caplog.messages)
    add_version(export_dir, 2)
    programs.wait_until(lambda: server.parts.versions.current.number == "2")


@pytest.mark.long
def test_a_version_that_is_copied_slowly_is_served_when_complete(export_dir, server, caplog):
    """The graph and export.json come first; loading fails until the rest follows after a pause."""
    incomplete, late = export_dir / "incomplete-2", export_dir / "late"
    shutil.copytree(export_dir / "1", incomplete)
    os.rename(incomplete / "assets" / "tokens.txt", late)
    os.rename(incomplete, export_dir / "2")
    programs.wait_until(lambda: list_failures(caplog))
    assert server.get("/healthz").json()["version"] == "1"
    os.rename(late, export_dir / "2" / "assets" / "tokens.txt")
    programs.wait_until(lambda: server.parts.versions.current.number == "2")
    (message,) = list_failures(caplog)
    assert message.startswith(f"{export_dir / '2' / 'assets' / 'tokens.txt'} cannot be read")


@pytest.mark.long
def test_versions_whose_files_still_change_are_not_loaded(export_dir, caplog):
    found = versions.Versions(str(export_dir), metrics.Metrics())
    add_version(export_dir, 2)
    growing = export_dir / "2" / "assets" / "tokens.txt"
    whole = growing.read_bytes()
    for num_bytes in (1, 2, len(whole)):
        growing.write_bytes(whole[:num_bytes])
        asyncio.run(found.refresh())
        assert found.current.number == "1"
    asyncio.run(found.refresh())
    assert (found.current.number, list_failures(caplog)) == ("2", [])


@pytest.mark.long
def test_a_version_that_is_removed_gives_way_to_the_newest_that_loads(export_dir, caplog):
    for number in (2, 3, 4):
        add_version(export_dir, number)
    (export_dir / "3" / "assets" / "tokens.txt").write_text("x")
    found = versions.Versions(str(export_dir), metrics.Metrics())
    assert found.current.number == "4"
    shutil.rmtree(export_dir / "4")
    for _ in range(2):
        asyncio.run(found.refresh())
    assert found.current.number == "2"
    (message,) = list_failures(caplog)
    assert message.endswith("; still serving version 4")
    for _ in range(2):
        asyncio.run(found.refresh())
    assert (found.current.number, len(list_failures(caplog))) == ("2", 1)


@pytest.mark.long
def test_the_directory_of_one_version_is_never_replaced(export_dir, monkeypatch):
    monkeypatch.setattr(versions, "POLL_SECONDS", 0.1)
    with local_server.serve(export_dir / "1") as server:
        add_version(export_dir, 2)
        time.sleep(0.5)
        assert server.get("/healthz").json()["version"] == "1"


def test_a_missing_export_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="contains no SavedModel"):
        versions.Versions(str(tmp_path), metrics.Metrics())
