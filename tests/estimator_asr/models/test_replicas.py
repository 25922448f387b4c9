import json

import paths
import programs
import pytest
import tensorflow as tf

from estimator_asr.models import replicas


def test_one_replica_sums_nothing():
    with tf.Graph().as_default():
        value = tf.constant(1.0)
        assert replicas.num_replicas() == 1
        assert replicas.sum_over_replicas([value]) == [value]
        assert replicas.differentiable_sum(value) is value


def find_differences(**settings):
    """Returns each variable's largest difference between training on two replicas and on one."""
    done = programs.run(paths.script("replica_programs.py"), "differences", json.dumps(settings), timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_two_replicas_train_the_acoustic_model_of_one():
    """Replicas have batches of different sizes, one of them without frames; moving averages are equal too."""
    found = find_differences(kind="acoustic", steps=6)
    assert len(found) > 50 and max(found.values()) < 1e-5


@pytest.mark.long
def test_two_replicas_that_accumulate_two_batches_train_the_acoustic_model_of_one():
    """Batch norm sums gradients over replicas with different numbers of labels; the loss is scaled."""
    found = find_differences(kind="acoustic", num_batches=2, steps=4, precision="float16")
    assert len(found) > 50 and max(found.values()) < 1e-5


@pytest.mark.slow
def test_two_replicas_that_accumulate_three_batches_train_the_language_model_of_one():
    """The rows of the sparse table have the same values as with one replica."""
    found = find_differences(kind="language", num_batches=3, steps=6)
    assert len(found) > 50 and max(found.values()) < 1e-5
