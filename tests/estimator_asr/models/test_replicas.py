from __future__ import annotations

import json

import paths
import programs
import pytest
import tensorflow as tf

from estimator_asr.models import replicas

TWO = {"num_replicas": 2}
ONE = {"num_replicas": 1, "is_whole": True}
RUNS = {
    "acoustic": {"kind": "acoustic", "steps": 6},
    "acoustic, two batches": {"kind": "acoustic", "num_batches": 2, "steps": 6, "precision": "float16"},
    "language": {"kind": "language", "num_batches": 3, "steps": 6},
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
    pairs = [[{**settings, **TWO}, {**settings, **ONE}] for settings in RUNS.values()]
    program = paths.SUPPORT / "replica_training.py"
    done = programs.run(program, json.dumps(pairs), timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(RUNS, json.loads(done.stdout.splitlines()[-1])))


def test_two_replicas_with_parts_of_the_batches_train_the_acoustic_model_of_one(differences):
    """Parts of different sizes, one of them a row without frames; the moving averages are the same too."""
    assert len(differences["acoustic"]) > 50 and max(differences["acoustic"].values()) < 1e-5


def test_two_replicas_with_parts_of_two_batches_a_step_train_the_acoustic_model_of_one(differences):
    """Batch norm's gradients cross the replicas, whose labels differ in number; the loss is scaled."""
    found = differences["acoustic, two batches"]
    assert len(found) > 50 and max(found.values()) < 1e-5


def test_two_replicas_with_parts_of_three_batches_a_step_train_the_language_model_of_one(differences):
    """Rows of its sparse table rest as they do on one."""
    assert len(differences["language"]) > 50 and max(differences["language"].values()) < 1e-5
