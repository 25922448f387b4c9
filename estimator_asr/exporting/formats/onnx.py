"""Converts graphs to ONNX, with standard operators alone."""

from __future__ import annotations

import os
import tempfile

import numpy as np
import tensorflow as tf

from estimator_asr.exporting.formats import parts, rewriting

FILE = "{}.onnx"
OPSET = 17  # of ONNX 1.12; ONNX Runtime reads it from 1.12 on
MODULES = ("onnx", "onnxruntime", "tf2onnx")
_QUANTISED = ["MatMul", "Gather"]  # products and tables; ONNX Runtime 1.19 lacks convolutions
_SMALLEST_HALVED = 1024  # numbers of a weight that is stored as float16


def convert(part: parts.Part, weights: str) -> bytes:
    """Returns the content of an .onnx file; weights of int8 are quantised per channel after training."""
    from tf2onnx import optimizer, tfonnx

    names = [f"{name}:0" for name in (*part.inputs, *part.outputs)]
    # It merges reshapes of which one has a shape that is computed, and gets another shape (tf2onnx 1.17).
    passes = {name: each for name, each in optimizer._optimizers.items() if name != "remove_back_to_back"}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(rewriting.replace_erfc(part.graph), name="")
        converted = tfonnx.process_tf_graph(
            graph,
            opset=OPSET,
            input_names=names[: len(part.inputs)],
            output_names=names[len(part.inputs) :],
            tensors_to_rename={name: name[:-2] for name in names},
        )
        model = optimizer.optimize_graph(converted, optimizers=passes).make_model(part.name)
    if weights == "float16":
        _halve(model)
    return _quantise(model) if weights == "int8" else model.SerializeToString()


def _halve(model) -> None:
    """Stores large weights as float16, which ONNX Runtime makes float32 again when it loads them."""
    from onnx import TensorProto, helper, numpy_helper

    for weight in model.graph.initializer:
        is_large = weight.data_type == TensorProto.FLOAT and np.prod(weight.dims) >= _SMALLEST_HALVED
        if is_large and not rewriting.is_frontend(weight.name):
            name, values = weight.name, numpy_helper.to_array(weight)
            weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}/half"))
            cast = helper.make_node("Cast", [weight.name], [name], f"{name}/whole", to=TensorProto.FLOAT)
            model.graph.node.insert(0, cast)


def _quantise(model) -> bytes:
    import onnx
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as directory:
        whole, small = (os.path.join(directory, name) for name in ("whole.onnx", "int8.onnx"))
        onnx.save(model, whole)
        floating = [node.name for node in model.graph.node if rewriting.is_frontend(node.name)]
        options = {"per_channel": True, "op_types_to_quantize": _QUANTISED, "nodes_to_exclude": floating}
        quantization.quantize_dynamic(whole, small, **options)
        with open(small, "rb") as file:
            return file.read()
