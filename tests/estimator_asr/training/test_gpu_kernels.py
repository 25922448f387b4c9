"""Training steps on a GPU: operations that still run on the CPU, and graph rewrites. No GPU is needed."""

import tempfile

import new_models
import pytest
import small_models
import small_records
import tensorflow as tf
from tensorflow.core.protobuf import device_properties_pb2
from tensorflow.python.framework import kernels
from tensorflow.python.grappler import cluster, tf_optimizer

from benchmarks.train_step import ours, work
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.monitoring.diagnostics import trial
from estimator_asr.training import model_fn
from estimator_asr.training.distributed import strategies

# Operations for sequence losses and metrics: CTC, edit distance, ragged lengths.
CPU_ONLY = {
    "acoustic": {"CTCLoss", "EditDistance", "RaggedTensorToSparse", "RaggedTensorToTensor"},
    "language": {"EditDistance", "Pad", "RaggedRange"},  # Pad pads the int64 hashes of n-grams
}
# Operations in every step: clocks, TensorBoard, and the marks of StepWatch.
ALWAYS = {"PyFunc", "ScalarSummary", "Timestamp"}
# Range computes lengths; the other operations are the weight update, which stays in float32 at any precision.
NOT_IN_HALF = {"Range"}
NOT_IN_BFLOAT16 = {"Range", "MulNoNan", "ResourceApplyAdam"}
_GPU = ("GPU", "DEFAULT")  # DEFAULT kernels run on any device


def build_nodes(kind):
    """Returns the nodes of a small model's training step, including the nodes in its functions."""
    model = small_models.make_without_dropout(tempfile.mkdtemp(), kind)
    batch = small_models.make_part(small_records.make_records("train", 6), range(6))
    with tf.Graph().as_default() as graph:
        tf.compat.v1.train.create_global_step()
        inputs, _ = trial.placeholders((batch, {}))
        model_fn.build_model_fn(model, new_models.plan())(inputs, inputs, estimator_api.ModeKeys.TRAIN)
        definition = graph.as_graph_def()
    return [*definition.node, *(node for each in definition.library.function for node in each.node_def)]


def find_missing(nodes, kind=tf.float32):
    """Returns the operations, except Const, without a GPU kernel for `kind` in place of float32."""
    nodes = [node for node in nodes if node.op != "Const"]
    if kind != tf.float32:
        nodes = [
            node
            for node in nodes
            if any(tf.float32.as_datatype_enum in _types(value) for value in node.attr.values())
        ]
    return {node.op for node in nodes if not _has_kernel(node, kind)}


def _types(value):
    return [kind for kind in (value.type, *value.list.type) if kind]


def _has_kernel(node, kind):
    registered = kernels.get_registered_kernels_for_op(node.op).kernel
    return not registered or any(each.device_type in _GPU and _takes(each, node, kind) for each in registered)


def _takes(kernel, node, kind):
    changed = {tf.float32.as_datatype_enum: kind.as_datatype_enum}
    return all(
        {changed.get(each, each) for each in _types(node.attr[constraint.name])}
        <= set(constraint.allowed_values.list.type)
        for constraint in kernel.constraint
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", CPU_ONLY)
def test_few_ops_have_no_gpu_kernel(kind):
    nodes, expected = build_nodes(kind), CPU_ONLY[kind] | ALWAYS
    assert CPU_ONLY[kind] <= find_missing(nodes) <= expected
    assert find_missing(nodes, tf.float16) - expected <= NOT_IN_HALF
    assert find_missing(nodes, tf.bfloat16) - expected <= NOT_IN_BFLOAT16


@pytest.mark.long
def test_graph_rewrites_do_not_fail_where_there_is_a_gpu(tmp_path):
    model = ours.make_model(config_lib.AcousticConfig(encoder_layers=1), 1299, str(tmp_path))
    graph = ours.open_session(model, work.make_batch(4, 100, 1299, 10, seed=1)).graph
    rewritten = rewrite_for_gpu(graph, strategies.session_config(training_config.TrainConfig()))
    assert {"Conv2D", "Conv2DBackpropFilter"} <= {node.op for node in rewritten.node}
    with pytest.raises(tf.errors.InvalidArgumentError, match="LayoutOptimizer"):  # it is on by default
        rewrite_for_gpu(graph, tf.compat.v1.ConfigProto())


def rewrite_for_gpu(graph, config):
    """Returns the graph of a step as Grappler rewrites it for a GPU; raises the error of a failed rewrite."""
    rewrites = config.graph_options.rewrite_options
    rewrites.fail_on_optimizer_errors, rewrites.min_graph_nodes = True, -1
    for each in graph.get_operations():
        kind = "CPU" if find_missing([each.node_def]) else "GPU"
        each._set_device(f"/device:{kind}:0")
    with graph.as_default():
        exported = tf.compat.v1.train.export_meta_graph(clear_devices=False)
    fetches = [graph.get_operation_by_name("gradient-norm").inputs[1].op.name, "group_deps"]
    exported.collection_def["train_op"].node_list.value.extend(fetches)
    return tf_optimizer.OptimizeGraph(config, exported, cluster=cluster.Cluster(devices=[*make_devices()]))


def make_devices():
    for kind in ("CPU", "GPU"):
        made = device_properties_pb2.DeviceProperties(type=kind)
        made.environment["architecture"] = "9.0"  # the compute capability
        yield device_properties_pb2.NamedDevice(name=f"/device:{kind}:0", properties=made)
