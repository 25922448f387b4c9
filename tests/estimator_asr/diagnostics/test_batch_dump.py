from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr import estimator_api
from estimator_asr.diagnostics import batch_dump
from tfrecord_builder import errors

ARRAYS = {
    "features/num_tokens": np.array([1, 2], np.int32),
    "features/seed": np.array([5, 3], np.int64),
    "labels/num_tokens": np.array([1, 2], np.int32),
    "step": 7,
    "num_replicas": 2,
    "config": "{}",
    "data": "f" * 64,
}


def run(tmp_path, steps, num_batches, **features):
    """Runs so many steps, in which `count` goes up, and dumps."""
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        features["count"] = tf.cast(step, tf.float32) + tf.constant([0.5, 0.25])
        number = tf.identity(step)
        with tf.control_dependencies([number, *features.values()]):
            train_op = step.assign_add(1)
        hook = batch_dump.BatchDumpHook(
            features,
            {"count": features["count"]},
            number,
            model_dir=str(tmp_path),
            num_batches=num_batches,
            num_replicas=1,
            config="{}",
            data="d",
        )
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(steps):
                session.run(train_op)
    return [batch_dump.read(path) for path in batch_dump.list_dumps(str(tmp_path / "batches"))]


def test_the_first_batches_are_written_as_the_step_had_them(tmp_path):
    dumps = run(tmp_path, 3, 2)
    assert [os.path.basename(dump.path) for dump in dumps] == ["batch-00000.npz", "batch-00001.npz"]
    assert [dump.step for dump in dumps] == [0, 1]
    for dump in dumps:
        for part in (dump.features, dump.labels):
            assert part["count"].dtype == np.float32
            assert part["count"].tolist() == [dump.step + 0.5, dump.step + 0.25]
        assert (dump.num_replicas, dump.config, dump.data) == (1, "{}", "d")


def test_a_later_run_continues_after_existing_files(tmp_path):
    run(tmp_path, 1, 1)
    first = (tmp_path / "batches" / "batch-00000.npz").read_bytes()
    (tmp_path / "batches" / "batch-x.npz").write_bytes(b"")
    assert len(run(tmp_path, 5, 2)) == 3
    assert (tmp_path / "batches" / "batch-00000.npz").read_bytes() == first
    assert len(os.listdir(tmp_path / "batches")) == 4  # no temporary file is left


def test_no_batches_and_no_directory_if_none_are_asked_for(tmp_path):
    assert run(tmp_path, 2, 0) == [] and os.listdir(tmp_path) == []


def test_what_was_written_is_read(tmp_path):
    dump = batch_dump.read(batch_dump.write(str(tmp_path), ARRAYS))
    assert (dump.position, dump.step, dump.num_replicas) == ((5, 3), 7, 2)
    assert {name: array.dtype.name for name, array in dump.features.items()} == {
        "num_tokens": "int32",
        "seed": "int64",
    }
    assert list(dump.labels) == ["num_tokens"]


def test_dumps_are_in_the_order_of_their_numbers(tmp_path):
    for number in (100000, 99999, 3):
        (tmp_path / f"batch-{number:05d}.npz").write_bytes(b"")
    assert [os.path.basename(path) for path in batch_dump.list_dumps(str(tmp_path))] == [
        "batch-00003.npz",
        "batch-99999.npz",
        "batch-100000.npz",
    ]
    assert batch_dump.write(str(tmp_path), ARRAYS).endswith("batch-100001.npz")


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.99])
def test_a_truncated_dump_is_named(tmp_path, fraction):
    path = batch_dump.write(str(tmp_path), ARRAYS)
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[: int(fraction * len(content))])
    with pytest.raises(errors.UserError, match=r"batch-00000.npz: is not a batch dump \(.*truncated"):
        batch_dump.read(path)


def test_another_npz_is_named(tmp_path):
    np.savez(tmp_path / "batch-00000.npz", x=1)
    with pytest.raises(errors.UserError, match=r"is not a batch dump \(KeyError"):
        batch_dump.read(str(tmp_path / "batch-00000.npz"))


def test_the_hook_asks_for_nothing_once_it_is_done():
    hook = batch_dump.BatchDumpHook(
        {}, {}, None, model_dir="", num_batches=0, num_replicas=1, config="", data=""
    )
    hook.begin()
    assert hook.before_run(None) == estimator_api.SessionRunArgs({})
