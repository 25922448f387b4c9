"""Values of tensors with initial variables, and the variables of the default graph by name."""

from __future__ import annotations

import tensorflow as tf


def run(build):
    """Returns the values of the tensors that build() returns, from a graph of their own."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        fetches = build()
        initialise(session)
        return session.run(fetches)


def initialise(session):
    session.run(tf.compat.v1.global_variables_initializer())


def assign(session, name, value):
    variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
    session.run(variables[name].assign(value))
