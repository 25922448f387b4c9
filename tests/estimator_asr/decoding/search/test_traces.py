"""The tokens, frames and first prefixes to which the links of a search lead."""

import numpy as np
import tensorflow as tf

from estimator_asr.decoding.search import traces


def trace(nodes, links):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found = traces.trace(tf.constant(nodes, tf.int64), tf.constant(links, tf.int64))
        return session.run(found)


def test_nodes_are_followed_back_to_the_first_beam():
    """Three frames, beam width 2: node 5 is place 1 of frame 2, and -2 is the first beam's second prefix."""
    links = np.zeros([3, 1, 2, 2])
    links[0, 0, 1] = -2, 7  # node 1: token 7 after the second prefix
    links[2, 0, 1] = 1, 4  # node 5: token 4 after node 1
    links[1, 0, 0] = -1, 9  # node 2: token 9 after the first prefix
    found = trace([[5, 2]], links)
    assert found.ids.tolist() == [[[7, 4], [9, -1]]]
    assert found.frames.tolist() == [[[0, 2], [1, -1]]]
    assert found.num_tokens.tolist() == [[2, 1]]
    assert found.roots.tolist() == [[1, 0]]


def test_utterances_have_their_own_links():
    links = np.zeros([1, 2, 2, 2])
    links[0, :, 0] = [(-1, 3), (-2, 6)]
    found = trace([[0, -1], [0, -2]], links)
    assert found.ids.tolist() == [[[3], [-1]], [[6], [-1]]]
    assert found.roots.tolist() == [[0, 0], [1, 1]]
