"""Responses of the predict API for the outputs of rows."""

from __future__ import annotations

import json

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from estimator_asr.server import tensorflow_json, tensorflow_responses


def test_responses():
    results = [
        {"transcript": "你好".encode(), "score": np.float32(0.12), "n_best.score": np.float32([-1, -2])},
        {"transcript": b"", "score": np.float32(0), "n_best.score": np.float32([-3])},
    ]
    call = tensorflow_json.Call("serving_default", [], (), False)
    assert json.loads(tensorflow_responses.format(call, results)) == {
        "predictions": [
            {"transcript": "你好", "score": 0.12, "n_best.score": [-1, -2]},
            {"transcript": "", "score": 0, "n_best.score": [-3, float(str(np.finfo(np.float32).min))]},
        ]
    }
    only = [{"characters": np.array([b"a"], object)}, {"characters": np.array([b"b", b"c"], object)}]
    assert (
        tensorflow_responses.format(call._replace(is_columnar=True), only)
        == b'{"outputs": [["a", ""], ["b", "c"]]}'
    )


def test_columns_without_values_have_an_empty_response():
    outputs = dict.fromkeys(("transcript", "n_best.score"), meta_graph_pb2.TensorInfo())
    inputs = {"wav_bytes": meta_graph_pb2.TensorInfo(dtype=types_pb2.DT_STRING)}
    definitions = {"serving_default": meta_graph_pb2.SignatureDef(inputs=inputs, outputs=outputs)}
    call = tensorflow_json.parse(b'{"inputs": {"wav_bytes": []}}', definitions)
    assert call.rows == []
    empty = {"transcript": [], "n_best.score": []}
    assert json.loads(tensorflow_responses.format(call, [])) == {"outputs": empty}
    only = call._replace(outputs=("transcript",))
    assert json.loads(tensorflow_responses.format(only, [])) == {"outputs": []}
    rows = call._replace(is_columnar=False)
    assert json.loads(tensorflow_responses.format(rows, [])) == {"predictions": []}
