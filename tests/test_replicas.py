from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.models import replicas

# Batch norm and softmax take these away again: their gradient is zero but for rounding, and Adam divides it
# by its own size.
WITHOUT_GRADIENT = ("halve_0/bias", "halve_1/bias", "depthwise_conv/bias", "key_value/bias")
TWO = {"num_replicas": 2}
ONE = {"num_replicas": 1, "is_whole": True}
RUNS = {
    "acoustic": {"kind": "acoustic", "optimizer": "momentum"},
    "language": {"kind": "language"},
    "several batches": {"kind": "language", "num_batches": 3, "steps": 10},
}


def test_one_replica_sums_nothing():
    with tf.Graph().as_default():
        value = tf.constant(1.0)
        assert replicas.num_replicas() == 1
        assert replicas.sum_over_replicas([value]) == [value]
        assert replicas.differentiable_sum(value) is value


@pytest.fixture(scope="module")
def differences():
    """Largest difference of each variable between two replicas with parts and one with whole batches."""
    program = pathlib.Path(__file__).parent / "replica_training.py"
    pairs = [[{**settings, **TWO}, {**settings, **ONE}] for settings in RUNS.values()]
    root = str(program.parent.parent)
    done = subprocess.run(
        [sys.executable, str(program), json.dumps(pairs)],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=400,
        env={"PYTHONPATH": root},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(RUNS, json.loads(done.stdout.splitlines()[-1])))


def test_two_replicas_with_parts_of_the_batches_train_the_acoustic_model_of_one(differences):
    """Parts of different sizes, one of them a row without frames; the moving averages are the same too."""
    assert len(differences["acoustic"]) > 50 and max(differences["acoustic"].values()) < 1e-5


@pytest.mark.parametrize("name", ["language", "several batches"])
def test_two_replicas_with_parts_of_the_batches_train_the_language_model_of_one(differences, name):
    compared = {key: value for key, value in differences[name].items() if WITHOUT_GRADIENT[-1] not in key}
    assert len(compared) > 50 and np.isfinite(list(compared.values())).all() and max(compared.values()) < 1e-5
