"""Training steps where there is a GPU: ops that run on the CPU all the same, and rewrites of the graph."""

from __future__ import annotations

import gpu_kernels
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import device_properties_pb2
from tensorflow.python.grappler import cluster, tf_optimizer

from benchmarks.train_step import ours, work
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import training_config
from estimator_asr.training.distributed import strategies

# Losses and metrics of sequences: CTC, edits, ragged lengths.
CPU_ONLY = {
    "acoustic": {"CTCLoss", "EditDistance", "RaggedTensorToSparse", "RaggedTensorToTensor"},
    "language": {"EditDistance", "Pad", "RaggedRange"},  # Pad: of int64, for the hashes of n-grams
}
# What every step has: clocks, TensorBoard, and the marks of StepWatch.
ALWAYS = {"PyFunc", "ScalarSummary", "Timestamp"}
# Lengths; and the weight update, which stays in float32 whatever the precision.
NOT_IN_HALF = {"Range"}
NOT_IN_BFLOAT16 = {"Range", "MulNoNan", "ResourceApplyAdam"}


@pytest.mark.long
@pytest.mark.parametrize("kind", CPU_ONLY)
def test_few_ops_have_no_gpu_kernel(kind):
    nodes = gpu_kernels.build_nodes(kind)
    assert gpu_kernels.find_missing(nodes) <= CPU_ONLY[kind] | ALWAYS
    assert CPU_ONLY[kind] <= gpu_kernels.find_missing(nodes)
    others = CPU_ONLY[kind] | ALWAYS
    assert gpu_kernels.find_missing(nodes, tf.float16) - others <= NOT_IN_HALF
    assert gpu_kernels.find_missing(nodes, tf.bfloat16) - others <= NOT_IN_BFLOAT16


@pytest.mark.long
def test_graph_rewrites_do_not_fail_where_there_is_a_gpu(tmp_path):
    model = ours.make_model(config_lib.AcousticConfig(encoder_layers=1), 1299, str(tmp_path))
    graph = ours.open_session(model, work.make_batch(4, 100, 1299, 10, seed=1)).graph
    rewritten = rewrite_for_gpu(graph, strategies.session_config(training_config.TrainConfig()))
    assert {"Conv2D", "Conv2DBackpropFilter"} <= {node.op for node in rewritten.node}
    default = tf.compat.v1.ConfigProto()
    with pytest.raises(tf.errors.InvalidArgumentError, match="LayoutOptimizer"):
        rewrite_for_gpu(graph, default)


def rewrite_for_gpu(graph, config):
    """Returns the graph of a step as Grappler rewrites it for a GPU; raises the error of a rewrite."""
    rewrites = config.graph_options.rewrite_options
    rewrites.fail_on_optimizer_errors, rewrites.min_graph_nodes = True, -1
    for each in graph.get_operations():
        kind = "CPU" if gpu_kernels.find_missing([each.node_def]) else "GPU"
        each._set_device(f"/device:{kind}:0")
    with graph.as_default():
        exported = tf.compat.v1.train.export_meta_graph(clear_devices=False)
    fetches = [graph.get_operation_by_name("gradient-norm").inputs[1].op.name, "group_deps"]
    exported.collection_def["train_op"].node_list.value.extend(fetches)
    return tf_optimizer.OptimizeGraph(config, exported, cluster=cluster.Cluster(devices=make_devices()))


def make_devices():
    made = [device_properties_pb2.DeviceProperties(type=kind) for kind in ("CPU", "GPU")]
    for each in made:
        each.environment["architecture"] = "9.0"  # the compute capability
    return [
        device_properties_pb2.NamedDevice(name=f"/device:{each.type}:0", properties=each) for each in made
    ]
