"""Converts graphs to ONNX, using only standard operators."""

from __future__ import annotations

import os
import tempfile

import numpy as np
import tensorflow as tf

from estimator_asr.exporting.formats import parts, rewriting

FILE = "{}.onnx"
OPSET = 17  # introduced in ONNX 1.12 and supported by ONNX Runtime 1.12 and later
MODULES = ("onnx", "onnxruntime", "tf2onnx")
# Only matrix products and table lookups: ONNX Runtime 1.19 cannot run quantised convolutions.
_QUANTISED = ["MatMul", "Gather"]
_SMALLEST_HALVED = 1024  # weights with at least this many elements are stored as float16


def convert(part: parts.Part, weights: str) -> bytes:
    """Returns the contents of an .onnx file; for int8, weights are quantised per channel after training."""
    from tf2onnx import optimizer, tfonnx

    names = [f"{name}:0" for name in (*part.inputs, *part.outputs)]
    # tf2onnx 1.17's remove_back_to_back merges two reshapes incorrectly if one of the shapes is computed.
    passes = {name: make for name, make in optimizer._optimizers.items() if name != "remove_back_to_back"}
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
    """Stores large weights as float16; ONNX Runtime converts them back to float32 when it loads the model."""
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
        # ONNX Runtime's products with signed weights overflow 16 bits on x86 CPUs without VNNI.
        options["weight_type"] = quantization.QuantType.QUInt8
        quantization.quantize_dynamic(whole, small, **options)
        with open(small, "rb") as file:
            return file.read()
