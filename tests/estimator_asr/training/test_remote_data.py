"""Training and evaluation on s3:// data, with two replicas and the smallest possible shard cache."""

import os
import shutil
import subprocess
import sys

import numpy as np
import paths
import pytest
import s3_server
import small_records
import tiny_flags

from estimator_asr.experiment import checkpoints

_TINY = [
    *(*tiny_flags.LANGUAGE, "--model=language", "--batch_tokens=8", "--num_buckets=2"),
    *("--train_steps=30", "--save_checkpoints_steps=15", "--warmup_epochs=0", "--shuffle_records=5"),
    "--num_cpu_replicas=2",
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory with data in 20 shards, which are also in the object store."""
    path = tmp_path_factory.mktemp("remote")
    small_records.make_data(str(path / "data"), splits=[("train", 60), ("dev", 20)], num_shards=20)
    with s3_server.run() as client:
        s3_server.upload(client, path / "data", "data")
        yield path


def _run(cache, program, *flags):
    command = [sys.executable, "-m", f"estimator_asr.{program}", *flags]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    options = {"cwd": paths.ROOT, "env": environment, "capture_output": True, "text": True}
    return subprocess.run(command, timeout=300, **options)


@pytest.mark.slow
def test_remote_data_trains_the_same_model(directory):
    num_bytes = 16 * max(path.stat().st_size for path in (directory / "data").glob("*.tfrecord"))
    weights, limit = {}, f"--shard_cache_gb={num_bytes / 1e9}"
    for name, data_dir in (("here", directory / "data"), ("there", f"{s3_server.BUCKET}/data")):
        where = (f"--data_dir={data_dir}", f"--model_dir={directory / name}")
        done = _run(directory / "cache", "train", *_TINY, *where, limit)
        assert done.returncode == 0, done.stderr
        weights[name] = dict(checkpoints.iterate(str(directory / name / "model.ckpt-30")))
    assert weights["here"].keys() == weights["there"].keys()
    for name, value in weights["here"].items():
        np.testing.assert_allclose(weights["there"][name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    copies = os.scandir(directory / "cache" / "estimator_asr" / "shards")
    assert 0 < sum(copy.stat().st_size for copy in copies) <= num_bytes
    flags = [f"--data_dir={s3_server.BUCKET}/data", "--split=dev", f"--output_dir={directory / 'report'}"]
    done = _run(directory / "cache", "evaluate", f"--model_dir={directory / 'there'}", *flags)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_changed_remote_shard_ends_training_with_an_error_message(directory):
    shutil.copytree(directory / "data", directory / "wrong")
    shard = directory / "wrong" / "train-00007-of-00020.tfrecord"
    shard.write_bytes(bytes(shard.stat().st_size))
    s3_server.upload(s3_server.s3_store.connect(), directory / "wrong", "wrong")
    where = (f"--data_dir={s3_server.BUCKET}/wrong", f"--model_dir={directory / 'model'}")
    done = _run(directory / "another", "train", *_TINY, *where)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: s3://bucket/wrong/train-00007-of-00020.tfrecord: shard does not match the size and sha256 "
        "in dataset_info.json; copy or build the data again"
    )
