from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_asr.inputs import damage
from tfrecord_builder import errors


@pytest.mark.parametrize(
    "error, said",
    [
        (
            tf.errors.DataLossError(None, None, "corrupted record at 12\n\t[[node]]"),
            r"a,b: a shard of split dev is damaged \(corrupted record at 12\); copy or build the data again; "
            "python -m tfrecord_builder.verify --data_dir=a,b names the shard",
        ),
        (
            tf.errors.DataLossError(
                None,
                None,
                "Graph execution error:\n\nNode: 'Next'\ntruncated record at 7\n\t [[{{node Next}}]]",
            ),
            r"is damaged \(truncated record at 7\); copy",
        ),
        (
            tf.errors.InvalidArgumentError(None, None, "assertion failed: [utterance u1: fbank has 9 bytes]"),
            r"utterance u1: fbank has 9 bytes",
        ),
    ],
)
def test_a_damaged_shard_is_one_sentence(error, said):
    with pytest.raises(errors.UserError, match=said), damage.explain(["a", "b"], "dev"):
        raise error


def test_what_is_not_about_the_data_stays_as_it_is():
    wrong = tf.errors.InvalidArgumentError(None, None, "matrix sizes do not match")
    with pytest.raises(tf.errors.InvalidArgumentError), damage.explain(["a"], "dev"):
        raise wrong
