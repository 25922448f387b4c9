"""Training steps where there is a GPU: ops that run on the CPU all the same, and rewrites of the graph."""

from __future__ import annotations

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
from estimator_asr.training import model_fn
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


_GPU = ("GPU", "DEFAULT")  # DEFAULT: any device


def build_nodes(kind):
    """Returns the nodes of a training step of a small model, those of its functions too."""
    model = small_models.make_without_dropout(tempfile.mkdtemp(), kind)
    records = small_records.make_records("train", 6)
    with tf.Graph().as_default() as graph:
        tf.compat.v1.train.create_global_step()
        inputs = {
            key: _placeholder(key, value) for key, value in small_models.make_part(records, range(6)).items()
        }
        model_fn.build_model_fn(model, new_models.plan())(inputs, inputs, estimator_api.ModeKeys.TRAIN)
        definition = graph.as_graph_def()
    return [*definition.node, *(node for each in definition.library.function for node in each.node_def)]


def _placeholder(key, value):
    shape = value.shape if key == "seed" else [None] * value.ndim
    return tf.compat.v1.placeholder(value.dtype, [*shape[:-1], value.shape[-1]] if key == "fbank" else shape)


def find_missing(nodes, kind=tf.float32):
    """Returns the ops without a kernel for a GPU where float32 is `kind`; constants of text are left out."""
    return {node.op for node in nodes if _computes(node, kind) and not _has_kernel(node, kind)}


def _computes(node, kind):
    types = _types(node)
    return node.op != "Const" and (kind == tf.float32 or tf.float32.as_datatype_enum in types)


def _types(node):
    return [each for value in node.attr.values() for each in (value.type, *value.list.type) if each]


def _has_kernel(node, kind):
    registered = kernels.get_registered_kernels_for_op(node.op).kernel
    return not registered or any(each.device_type in _GPU and _takes(each, node, kind) for each in registered)


def _takes(kernel, node, kind):
    changed = {tf.float32.as_datatype_enum: kind.as_datatype_enum}
    for constraint in kernel.constraint:
        value, allowed = node.attr[constraint.name], constraint.allowed_values.list.type
        wanted = [changed.get(each, each) for each in (value.type, *value.list.type) if each]
        if not set(wanted) <= set(allowed):
            return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("kind", CPU_ONLY)
def test_few_ops_have_no_gpu_kernel(kind):
    nodes = build_nodes(kind)
    assert find_missing(nodes) <= CPU_ONLY[kind] | ALWAYS
    assert CPU_ONLY[kind] <= find_missing(nodes)
    others = CPU_ONLY[kind] | ALWAYS
    assert find_missing(nodes, tf.float16) - others <= NOT_IN_HALF
    assert find_missing(nodes, tf.bfloat16) - others <= NOT_IN_BFLOAT16


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
        kind = "CPU" if find_missing([each.node_def]) else "GPU"
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
