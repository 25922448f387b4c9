"""Variables of the default graph, by name, for tests of layers."""

from __future__ import annotations

import tensorflow as tf


def initialise(session):
    session.run(tf.compat.v1.global_variables_initializer())


def assign(session, name, value):
    variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
    session.run(variables[name].assign(value))
