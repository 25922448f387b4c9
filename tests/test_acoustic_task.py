from __future__ import annotations

import numpy as np
import small_batches
import small_records
import tensorflow as tf

from estimator_asr.training import acoustic_task


def run(tensors):
    with tf.compat.v1.Session() as session:
        return session.run(tensors)


def test_blank_share_counts_frames_without_padding():
    with tf.Graph().as_default():
        best = [[2, 0, 2, 2], [1, 2, 2, 2]]  # class 2 is the blank
        ratio = acoustic_task.blank_share(tf.one_hot(best, 3), tf.constant([3, 1]))
        assert run(ratio) == (2, 4)


def test_decoder_targets_end_with_the_end_symbol():
    with tf.Graph().as_default():
        targets, weights = run(
            acoustic_task.decoder_targets(tf.constant([[4, 5], [6, 0]]), tf.constant([2, 1]), 9)
        )
    np.testing.assert_array_equal(targets, [[4, 5, 9], [6, 9, 9]])
    np.testing.assert_array_equal(weights, [[1, 1, 1], [1, 1, 0]])


def test_the_teacher_forced_error_rate_counts_the_end_but_no_padding():
    chosen = [[4, 5, 9], [6, 0, 0], [1, 1, 1]]  # class 9 ends
    with tf.Graph().as_default():
        labels = {"token_ids": tf.constant([[4, 7], [6, 0], [0, 0]]), "num_tokens": tf.constant([2, 1, 0])}
        # One of the first row is wrong, and the end of the second; the third says nothing.
        assert run(acoustic_task.teacher_forced_errors(tf.one_hot(chosen, 10), labels)) == (2, 5)


def test_a_row_that_fills_up_a_replica_has_no_loss(tmp_path):
    model = small_batches.make_model(str(tmp_path), "acoustic")
    records = small_records.make_records("train", 1, small_records.TOKENS, small_records.FRONTEND, True)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sums = []
        for rows in ([0], [0, None]):
            part = {name: tf.constant(each) for name, each in small_batches.make_part(records, rows).items()}
            with tf.compat.v1.variable_scope("model", reuse=bool(sums)):
                sums.append(acoustic_task.forward(model, part, part, training=False).losses)
        session.run(tf.compat.v1.global_variables_initializer())
        alone, filled = session.run([(each.parts["decoder-loss"], each.num_labels) for each in sums])
    np.testing.assert_allclose(alone, filled, rtol=1e-5)
