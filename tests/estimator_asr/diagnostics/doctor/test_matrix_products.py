from __future__ import annotations

import tensorflow as tf

from estimator_asr.diagnostics.doctor import matrix_products


def count(build):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        counter = matrix_products.Counter(tf.group(build()))
        return counter.count(session.run(counter.shapes))


def test_a_product_of_m_k_and_k_n_is_2mkn():
    assert count(lambda: tf.matmul(tf.zeros([3, 5]), tf.zeros([5, 7]))) == 2 * 3 * 5 * 7
    assert count(lambda: tf.matmul(tf.zeros([5, 3]), tf.zeros([5, 7]), transpose_a=True)) == 2 * 3 * 5 * 7
    assert (
        count(lambda: tf.matmul(tf.zeros([4, 3, 5]), tf.zeros([4, 7, 5]), transpose_b=True))
        == 2 * 4 * 3 * 5 * 7
    )


def test_a_product_with_its_two_gradients_is_three():
    def build():
        left, right = tf.ones([3, 5]) * 2, tf.ones([5, 7]) * 2
        return tf.gradients(tf.reduce_sum(tf.matmul(left, right) ** 2), [left, right])

    assert count(build) == 3 * 2 * 3 * 5 * 7


def test_convolutions_count_with_the_gradients_that_are_needed():
    def build(num_gradients):
        image, kernel = tf.ones([2, 8, 6, 3]) * 2, tf.ones([3, 3, 3, 4]) * 2
        outputs = tf.nn.conv2d(image, kernel, strides=2, padding="SAME")  # [2, 4, 3, 4]
        return tf.gradients(tf.reduce_sum(outputs**2), [image, kernel])[:num_gradients] + [outputs]

    once = 2 * (2 * 4 * 3 * 4) * (3 * 3 * 3)
    assert [count(lambda n=n: build(n)) for n in (0, 1, 2)] == [once, 2 * once, 3 * once]


def test_a_depthwise_convolution_does_not_sum_over_channels():
    def build():
        image, kernel = tf.ones([2, 8, 1, 3]) * 2, tf.ones([5, 1, 3, 1]) * 2
        outputs = tf.nn.depthwise_conv2d(image, kernel, strides=[1, 1, 1, 1], padding="SAME")
        return tf.gradients(tf.reduce_sum(outputs**2), [image, kernel])

    assert count(build) == 3 * 2 * (2 * 8 * 3) * 5


def test_the_rate_is_positive_and_of_the_best_product():
    assert matrix_products.measure_rate(64, seconds=0.05) > 1e6
