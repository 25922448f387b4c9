"""The cache of remote shards, with TensorFlow's in-memory file system as the store."""

import dataclasses
import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time

import paths
import pytest
import small_records
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import task_spec
from estimator_asr.inputs import bounded_directory, input_fn, record_index, shard_cache, splits
from tfrecord_builder import errors
from tfrecord_builder.storage import files

STORE = "ram://store"
_BYTES = 1000


@pytest.fixture(autouse=True)
def cache_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if tf.io.gfile.exists(STORE):
        tf.io.gfile.rmtree(STORE)
    tf.io.gfile.makedirs(f"{STORE}/")
    return tmp_path / "cache" / "estimator_asr" / "shards"


@pytest.fixture
def downloads(monkeypatch):
    """Records the names of the shards whose download has begun."""
    names, original = [], files.download

    def download(path, file):
        names.append(os.path.basename(path))
        original(path, file)

    monkeypatch.setattr(files, "download", download)
    return names


def make_shard(name, num_bytes=_BYTES):
    content = name.encode().ljust(num_bytes, b".")
    with tf.io.gfile.GFile(f"{STORE}/{name}", "wb") as file:
        file.write(content)
    return splits.DataShard(f"{STORE}/{name}", num_bytes, hashlib.sha256(content).hexdigest())


def read(path):
    with open(path, "rb") as file:
        return file.read()


def make_cache(monkeypatch, num_shards=20, num_held=1):
    monkeypatch.setattr(shard_cache, "_NUM_AHEAD", 0)
    monkeypatch.setattr(shard_cache, "_NUM_HELD", num_held)
    monkeypatch.setattr(shard_cache, "_MIN_SHARDS", num_held + 2)
    return shard_cache.ShardCache(num_shards * _BYTES / 1e9)


def test_a_shard_is_downloaded_once(cache_directory, downloads):
    shard = make_shard("a")
    path = shard_cache.ShardCache().fetch(shard)
    assert path == str(cache_directory / f"{shard.sha256}.tfrecord") and read(path).startswith(b"a...")
    assert shard_cache.ShardCache().fetch(shard) == path and downloads == ["a"]
    os.remove(path)  # another process may do this
    assert read(shard_cache.ShardCache().fetch(shard)).startswith(b"a...") and downloads == ["a", "a"]
    assert os.listdir(cache_directory) == [f"{shard.sha256}.tfrecord"]


def test_a_local_shard_stays_where_it_is(cache_directory):
    assert shard_cache.ShardCache().fetch(splits.DataShard("/data/a", 1, "")) == "/data/a"
    assert not cache_directory.exists()


def test_the_least_recently_used_shard_is_removed_to_stay_within_the_bound(
    cache_directory, downloads, monkeypatch
):
    cache = make_cache(monkeypatch, num_shards=3)
    shards = {name: make_shard(name) for name in "abcde"}
    for name in "abcadaeb":
        assert read(cache.fetch(shards[name])).startswith(name.encode())
        assert sum(entry.stat().st_size for entry in os.scandir(cache_directory)) <= 3 * _BYTES
    assert downloads == ["a", "b", "c", "d", "e", "b"]  # d: b goes; e: c; b: d


def test_the_last_shards_stay_until_they_can_be_opened(downloads, monkeypatch):
    cache = make_cache(monkeypatch, num_shards=6, num_held=4)
    other = make_cache(monkeypatch, num_shards=6, num_held=4)
    held = [cache.fetch(make_shard(name)) for name in "abcd"]
    for name in "klmnopq":
        other.fetch(make_shard(name))
    assert all(map(os.path.exists, held))
    cache.fetch(make_shard("e"))
    other.fetch(make_shard("r"))
    assert [os.path.exists(path) for path in held] == [False, True, True, True]


def test_a_bound_that_is_too_small_is_refused(downloads):
    shard = dataclasses.replace(make_shard("a"), num_bytes=3 * 10**9)
    said = (
        r"store/a: --shard_cache_gb is 20, expected at least 48 \(16 shards of this size\); train with a lar"
    )
    with pytest.raises(errors.UserError, match=said):
        shard_cache.ShardCache(20).fetch(shard)
    assert downloads == []


def test_a_shard_that_cannot_be_used_leaves_no_file(cache_directory):
    shard = dataclasses.replace(make_shard("a"), sha256="0" * 64)
    with pytest.raises(errors.UserError, match="a: shard does not match the size and sha256 in"):
        shard_cache.ShardCache().fetch(shard)
    files.remove(shard.path)
    with pytest.raises(
        errors.UserError, match="store/a: shard cannot be read .No such file.*; check the object store and"
    ):
        shard_cache.ShardCache().fetch(shard)
    assert os.listdir(cache_directory) == []


def test_a_full_disk_is_reported(monkeypatch, cache_directory):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    said = f"{cache_directory}: no space for copies of remote shards .No space left on device.; free at least"
    with pytest.raises(errors.UserError, match=f"{said} 5 MB, or set XDG_CACHE_HOME to another disk"):
        shard_cache.ShardCache().fetch(make_shard("a", 5_000_000))


def test_a_directory_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(errors.UserError) as caught:
        shard_cache.ShardCache().fetch(make_shard("a"))
    assert str(caught.value) == (
        f"{tmp_path}/file/estimator_asr/shards: copies of remote shards cannot be written (Not a directory); "
        "set XDG_CACHE_HOME to a writable directory that supports locks"
    )


def test_a_file_system_without_locks_is_reported(cache_directory, monkeypatch):
    def refuse(file, kind):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    said = (
        f"{cache_directory}: copies of remote shards cannot be written .No locks available.; set XDG_CACHE_H"
    )
    with pytest.raises(errors.UserError, match=said):
        shard_cache.ShardCache().fetch(make_shard("a"))


_PROGRAM = """
import sys, time
from estimator_asr.inputs import shard_cache, splits
from tfrecord_builder.storage import files
original = files.download
def download(path, file):
    print("downloaded")
    time.sleep(1)
    original(path, file)
files.download = download
cache = shard_cache.ShardCache()
print("ready", flush=True)
sys.stdin.read()
print(cache.fetch(splits.DataShard(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
"""


@pytest.mark.long
def test_two_processes_download_a_shard_once(tmp_path, cache_directory):
    (tmp_path / "a").write_bytes(b"shard")
    sha256 = hashlib.sha256(b"shard").hexdigest()
    command = [sys.executable, "-c", _PROGRAM, f"file://{tmp_path}/a", "5", sha256]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=paths.ROOT)
    running = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for each in running:
        assert each.stdout.readline() == "ready\n"
    for each in running:
        each.stdin.close()
    lines = sorted(line for each in running for line in each.stdout.read().split())
    path = str(cache_directory / f"{sha256}.tfrecord")
    assert lines == [path, path, "downloaded"]
    assert [each.wait() for each in running] == [0, 0]


def make_source(tmp_path, num_shards, count=40):
    """Returns the same split on the disk and in the store."""
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", count)], num_shards=num_shards)
    here = splits.read_split([info], [path], "train", task_spec.LANGUAGE)
    moved = []
    for shard in here.shards:
        moved.append(dataclasses.replace(shard, path=f"{STORE}/{os.path.basename(shard.path)}"))
        with tf.io.gfile.GFile(moved[-1].path, "wb") as file:
            file.write(read(shard.path))
    return here, dataclasses.replace(here, shards=tuple(moved))


def read_epoch(source, config, seed):
    """Yields the tokens of each batch in an epoch of training, or of evaluation if seed is None."""
    options = {"training": False} if seed is None else {"training": True, "seed": seed}
    batches = input_fn.build_input_fn(source, config, **options)()
    for features, _ in batches.take(source.bucket(config).batches_per_epoch).as_numpy_iterator():
        yield features["token_ids"].tolist()


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_the_order_is_that_of_local_shards(tmp_path, seed):
    config = config_lib.InputConfig(shuffle_records=10, batch_tokens=9)
    here, there = (
        list(read_epoch(source, config, seed)) for source in make_source(tmp_path, num_shards=20, count=130)
    )
    assert sum(map(len, here)) == 130 and there == here


@pytest.mark.long
def test_the_smallest_cache_stays_within_its_bound_and_keeps_the_order(tmp_path, cache_directory, downloads):
    here, there = make_source(tmp_path, num_shards=70, count=210)
    num_bytes = shard_cache._MIN_SHARDS * max(shard.num_bytes for shard in there.shards)
    config = config_lib.InputConfig(shuffle_records=10, batch_tokens=9, shard_cache_gb=num_bytes / 1e9)
    for seed in (1, 2, None):
        expected = list(read_epoch(here, config, seed))
        found = []
        for batch in read_epoch(there, config, seed):
            found.append(batch)
            assert bounded_directory.count_bytes(cache_directory) <= num_bytes
        assert found == expected
    assert len(downloads) > 2 * 70  # most were removed in between


def test_shards_are_fetched_while_those_before_are_read(tmp_path, monkeypatch):
    _, source = make_source(tmp_path, num_shards=12)
    begun, original, gate = [], files.download, threading.Event()
    record_index.load(source, config_lib.InputConfig())
    shutil.rmtree(shard_cache.find_directory("shards"))

    def download(path, file):
        begun.append(os.path.basename(path)[:11])
        if begun[-1] == "train-00004":
            assert gate.wait(60)
        original(path, file)

    monkeypatch.setattr(files, "download", download)
    batches = read_epoch(source, config_lib.InputConfig(batch_tokens=3, num_buckets=1), None)
    try:
        next(batches)
        end = time.monotonic() + 60
        while len(begun) < 5 and time.monotonic() < end:
            time.sleep(0.01)
        assert {f"train-{i:05d}" for i in range(5)} <= set(begun)
        for _ in range(13):  # the first four shards have 16 records, in batches of one
            next(batches)
    finally:
        gate.set()
    assert sum(1 for _ in batches) == 40 - 14
    assert sorted(begun) == [f"train-{i:05d}" for i in range(12)]


@pytest.mark.long
def test_the_epochs_of_a_split_share_one_cache(tmp_path, cache_directory):
    _, source = make_source(tmp_path, num_shards=40)
    for seed in (1, 2, 3):
        assert sum(map(len, read_epoch(source, config_lib.InputConfig(), seed))) == 40
    assert len(os.listdir(cache_directory)) == 40
    bounded_directory.reserve(str(cache_directory / "none.incomplete"), 0, max_bytes=0)
    # The cache may hold shards for the next epoch, and hold the same shard twice.
    assert 1 < len(os.listdir(cache_directory)) <= 1 + 2 + 4


@pytest.mark.parametrize("seed", [None, 1])
def test_a_shard_that_cannot_be_fetched_raises_a_user_error(tmp_path, seed):
    _, source = make_source(tmp_path, num_shards=3)
    files.remove(source.shards[1].path)
    with pytest.raises(errors.UserError) as caught, splits.explain_damage([STORE], "train"):
        list(read_epoch(source, config_lib.InputConfig(), seed))
    assert str(caught.value) == (
        f"{source.shards[1].path}: shard cannot be read (No such file or directory); check the object store "
        "and run the command again"
    )
