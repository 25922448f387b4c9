import sys

import numpy as np
import pytest

from estimator_asr_runtime import backends, errors

AGAIN = "copy the export again, or export the model again"


@pytest.fixture
def onnx_path(tmp_path) -> str:
    """The path of a graph whose output `twice` is 2 x `waveform`."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, [1, None]) for name in ("waveform", "twice")]
    node = helper.make_node("Add", ["waveform", "waveform"], ["twice"])
    graph = helper.make_graph([node], "twice", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "twice.onnx")
    return str(tmp_path / "twice.onnx")


@pytest.fixture
def litert_path(tmp_path) -> str:
    """The path of the same graph for LiteRT."""
    tf = pytest.importorskip("tensorflow")

    double = tf.function(lambda waveform: {"twice": tf.add(waveform, waveform, name="twice")})
    concrete = double.get_concrete_function(tf.TensorSpec([1, None], tf.float32, "waveform"))
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
    (tmp_path / "twice.tflite").write_bytes(converter.convert())
    return str(tmp_path / "twice.tflite")


def test_graphs_run_on_a_few_sequences_at_a_time():
    class Sums:
        rows = []

        def run(self, inputs):
            self.rows.append(len(inputs["token_ids"]))
            return {"sums": np.sum(inputs["token_ids"], axis=1) * inputs["factor"] + inputs["num_tokens"]}

    found = backends.run_on_sequences(Sums(), [(each,) * each for each in range(6)], factor=10)
    assert found["sums"].tolist() == [10 * each * each + each for each in range(6)]
    assert Sums.rows == [4, 2]


def test_onnx_runtime_accepts_any_size(onnx_path):
    graph = backends.OnnxGraph(onnx_path, 1)
    for size in (3, 5):
        outputs = graph.run({"waveform": np.ones([1, size], np.float32)})
        np.testing.assert_array_equal(outputs["twice"], np.full([1, size], 2))


@pytest.mark.filterwarnings("ignore")  # TensorFlow's converter emits warnings
def test_litert_accepts_any_size(litert_path):
    pytest.importorskip("ai_edge_litert")
    graph = backends.LiteRtGraph(litert_path, 1)
    for size in (3, 5):
        (output,) = graph.run({"waveform": np.ones([1, size], np.float32)}).values()
        np.testing.assert_array_equal(output, np.full([1, size], 2))


def test_other_inputs_are_refused(onnx_path, capfd):
    graph = backends.OnnxGraph(onnx_path, 1)
    message = r"twice\.onnx: the graph cannot be run \(.*\); copy the export"
    with pytest.raises(errors.UserError, match=message):
        graph.run({"speech": np.ones([1, 3], np.float32)})
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("library", "made"), [("onnxruntime", backends.OnnxGraph), ("ai_edge_litert", backends.LiteRtGraph)]
)
def test_a_file_that_is_not_a_graph_is_refused(tmp_path, library, made):
    pytest.importorskip(library)
    path = tmp_path / "graph"
    path.write_bytes(b"no graph, but long enough to be read as one")
    with pytest.raises(errors.UserError) as raised:
        made(str(path), 0)
    assert str(raised.value).startswith(f"{path}: the graph cannot be loaded (")
    assert str(raised.value).endswith(f"; {AGAIN}")


@pytest.mark.parametrize(
    ("module", "name", "made", "extra"),
    [
        ("onnxruntime", "onnxruntime", backends.OnnxGraph, "onnx"),
        ("ai_edge_litert.interpreter", "ai_edge_litert", backends.LiteRtGraph, "litert"),
    ],
)
def test_a_library_that_is_missing(monkeypatch, module, name, made, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.UserError) as raised:
        made("a", 0)
    assert str(raised.value).startswith(f"the model's format needs {name}, which cannot be imported (")
    assert str(raised.value).endswith(f"run pip install 'estimator-asr-runtime[{extra}]'")
