import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.monitoring.diagnostics import nan_search


class Model:
    """Two layers over [batch, length, 2]; `alter` may change the values between them."""

    def __init__(self, alter=lambda values: values):
        self.inputs = tf.compat.v1.placeholder(tf.float32, [None, None, 2], "features/fbank")
        with tf.compat.v1.variable_scope("first"):
            self.kernel = tf.compat.v1.get_variable("kernel", initializer=[[1.0, 0.5], [0.25, 1.0]])
            hidden = tf.matmul(tf.reshape(self.inputs, [-1, 2]), self.kernel)
        with tf.compat.v1.variable_scope("second"):
            hidden = alter(hidden)
            self.loss = tf.reduce_sum(hidden)
        self.gradients = tf.gradients(self.loss, [self.kernel])
        self.session = tf.compat.v1.Session()
        self.session.run(tf.compat.v1.global_variables_initializer())

    def find(self, values):
        targets = [self.loss, *self.gradients]
        return nan_search.find_non_finite(self.session, targets, {self.inputs: values}, len(values))


pytestmark = pytest.mark.usefixtures("graph")


def ones(batch=3, length=4):
    return np.ones([batch, length, 2], np.float32)


def test_nothing_is_found_if_all_tensors_are_finite():
    assert Model().find(ones()) is None


def test_an_input_with_nan_is_named_with_its_rows():
    values = ones()
    values[1, 2, 0] = math.nan
    found = Model().find(values)
    assert (found.tensor, found.op, found.rows) == ("features/fbank:0", "Placeholder", [1])
    assert found.shape == (3, 4, 2) and found.fraction == pytest.approx(1 / 24)
    assert "the input contains NaN or Inf" in found.cause


def test_weights_with_nan_are_named_as_the_variable():
    model = Model()
    model.session.run(model.kernel.assign([[1.0, math.inf], [0.0, 1.0]]))
    found = model.find(ones())
    assert (found.tensor, found.op, found.layer) == ("first/kernel", "ReadVariableOp", "first")
    assert found.rows is None and found.fraction == 0.25 and not found.is_backward
    assert "the weights contain NaN or Inf" in found.cause


def test_a_logarithm_of_zero_is_named_with_the_range_of_its_input():
    values = ones()
    values[2] = 0
    found = Model(tf.math.log).find(values)
    assert (found.tensor, found.op, found.layer) == ("second/Log:0", "Log", "second")
    # The first axis of this tensor is batch and length together.
    assert found.shape == (12, 2) and found.rows == [2] and found.fraction == pytest.approx(1 / 3)
    assert [(low, high) for _, low, high in found.inputs] == [(0, 1.5)]
    assert found.cause == "logarithm of zero or of a negative number"


def test_a_gradient_with_nan_is_named_by_the_layer_it_belongs_to():
    values = ones()
    values[0] = 0
    found = Model(tf.sqrt).find(values)  # the root of zero is finite, but its gradient is not
    assert found.op == "SqrtGrad" and found.is_backward and found.layer == "second"
    assert found.rows == [0] and found.cause == "gradient of a square root at zero"


def test_an_infinity_that_is_masked_is_not_the_cause():
    def alter(hidden):
        masked = tf.where(hidden > 0, tf.stop_gradient(tf.math.log(hidden)), 0.0)
        return tf.exp(100.0 * (hidden + masked))

    values = ones()
    values[0] = 0  # log gives -inf, which is masked; exp(125) overflows
    found = Model(alter).find(values)
    assert found.op == "Exp" and found.rows == [1, 2]


def test_an_operation_without_a_known_cause_is_an_overflow():
    found = Model(lambda hidden: hidden * 3e38).find(ones())
    assert found.op == "Mul" and found.cause.startswith("values exceeded the range of their type")
