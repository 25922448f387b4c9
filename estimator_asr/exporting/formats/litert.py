"""Converts graphs to LiteRT (formerly TensorFlow Lite), using only LiteRT's built-in operations."""

from __future__ import annotations

import tensorflow as tf

from estimator_asr.exporting.formats import parts

FILE = "{}.tflite"
MODULES = ("ai_edge_litert.interpreter",)


def convert(part: parts.Part, weights: str) -> bytes:
    """Returns the contents of a .tflite file.

    For int8, weights are quantised per channel after training, and activations at run time, just before each
    product. If the converter rejects an operation, it raises an exception, whose type varies.
    """
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.import_graph_def(part.graph, name="")
        inputs, outputs = (
            [graph.get_tensor_by_name(f"{name}:0") for name in names] for names in (part.inputs, part.outputs)
        )
        converter = tf.compat.v1.lite.TFLiteConverter.from_session(session, inputs, outputs)
        if weights != "float32":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if weights == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert()
