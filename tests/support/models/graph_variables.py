"""Graphs with initial variables: values of their tensors, and assignments to their variables."""

import tensorflow as tf


class Network:
    """A graph that is built once and then called with values for its inputs.

    `build` gets a placeholder for each of `inputs`, {name: (dtype, shape)}, and returns the tensors to fetch.
    """

    def __init__(self, build, **inputs):
        with tf.Graph().as_default():
            tf.compat.v1.set_random_seed(1)
            self.inputs = {name: tf.compat.v1.placeholder(*spec) for name, spec in inputs.items()}
            self.outputs = build(**self.inputs)
            self.variables = tf.compat.v1.global_variables()
            self.session = tf.compat.v1.Session()
            self.session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()])

    def __call__(self, *values, fetches=None):
        """Returns the outputs, or `fetches`, for the values of the inputs, in the order of the inputs."""
        feeds = dict(zip(self.inputs.values(), values))
        return self.session.run(self.outputs if fetches is None else fetches, feeds)


def run(build):
    """Returns the values of the tensors that build() returns, computed in a new graph."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        fetches = build()
        initialise(session)
        return session.run(fetches)


def initialise(session):
    session.run(tf.compat.v1.global_variables_initializer())


def assign(session, name, value):
    variables = {variable.op.name: variable for variable in tf.compat.v1.global_variables()}
    session.run(variables[name].assign(value))
