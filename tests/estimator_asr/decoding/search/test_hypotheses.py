import numpy as np
import tensorflow as tf

from estimator_asr.decoding.search import hypotheses


def test_hypotheses_are_reranked_by_added_scores():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found = hypotheses.Hypotheses(
            tf.constant([[[1, 2], [3, -1], [-1, -1]]]),
            tf.constant([[2, 1, 0]]),
            tf.constant([[-1.0, -2.0, -np.inf]]),
            tf.constant([[-0.5, -1.5, -np.inf]]),
        )
        reranked = session.run(found.reranked(tf.constant([[-4.0, -1.0, -1.0]])))
    assert reranked.ids.tolist() == [[[3, -1], [1, 2], [-1, -1]]]
    assert reranked.num_tokens.tolist() == [[1, 2, 0]]
    assert reranked.scores.tolist() == [[-3.0, -5.0, -np.inf]]
    assert reranked.acoustic_scores.tolist() == [[-1.5, -0.5, -np.inf]]


def test_a_shorter_list_of_hypotheses_is_padded_before_it_is_joined():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        joined = hypotheses.join(tf.constant([[[1, 2]]]), tf.constant([[[3], [4]]]), -1)
        assert session.run(joined).tolist() == [[[1, 2], [3, -1], [4, -1]]]
