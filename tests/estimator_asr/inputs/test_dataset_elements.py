from __future__ import annotations

import tensorflow as tf

from estimator_asr.inputs import dataset_elements


def test_elements_are_read_in_order_and_the_caller_keeps_its_graph():
    graph = tf.Graph()
    with graph.as_default():
        elements = dataset_elements.read(lambda: tf.data.Dataset.range(3).map(lambda i: {"twice": 2 * i}))
        values = []
        for element in elements:
            assert tf.compat.v1.get_default_graph() is graph
            values.append(int(element["twice"]))
    assert values == [0, 2, 4]
