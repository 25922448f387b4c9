import contextlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.models import replicas
from estimator_asr.training.distributed import cluster, strategies
from tfrecord_builder import errors
from tfrecord_builder.program import cpu

H100 = (9, 0)  # compute capability


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A function that simulates GPUs with some compute capabilities, CPU flags, and unusable GPUs."""
    monkeypatch.setattr(strategies, "DEVICE_FILES", (str(tmp_path / "nvidia[0-9]*"),))
    monkeypatch.setattr(cpu, "INFO_FILE", str(tmp_path / "cpuinfo"))
    monkeypatch.setattr(cpu, "count_cores", lambda: 2)

    def set_machine(gpus=(), cpu_flags="avx2", on_pci_bus="", device_file=False):
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: fpu {cpu_flags} sse\n")
        devices = [tf.config.PhysicalDevice(f"GPU:{i}", "GPU") for i in range(len(gpus))]
        details = [{"compute_capability": gpu, "device_name": "NVIDIA T4"} for gpu in gpus]
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: devices)
        monkeypatch.setattr(tf.config.experimental, "get_device_details", dict(zip(devices, details)).get)
        monkeypatch.setattr(strategies, "find_on_pci_bus", lambda: on_pci_bus)
        if device_file:
            (tmp_path / "nvidia0").touch()

    return set_machine


@pytest.mark.parametrize("num_gpus", [0, 1])
def test_a_single_device_has_no_strategy(machine, num_gpus):
    machine([H100] * num_gpus)
    assert strategies.build_strategy(training_config.TrainConfig()) is None


def test_several_gpus_share_the_batch_without_a_flag(machine, monkeypatch):
    machine([H100] * 2)
    monkeypatch.setattr(strategies.tf.distribute, "MirroredStrategy", lambda *devices: ("mirrored", devices))
    assert strategies.build_strategy(training_config.TrainConfig()) == ("mirrored", ())


def test_cpu_replicas_run_the_same_collectives_as_gpus():
    """By default, TensorFlow uses CollectiveAllReduce on GPUs, but ReductionToOneDevice on CPUs."""
    with tf.Graph().as_default():
        strategy = strategies.build_strategy(training_config.TrainConfig(num_cpu_replicas=2))
        sums = strategy.extended.call_for_each_replica(lambda: replicas.sum_over_replicas([tf.ones([3])]))
        nodes = {node.op for node in tf.compat.v1.get_default_graph().as_graph_def().node}
    assert len(strategy.experimental_local_results(sums[0])) == 2
    assert any(node.startswith("CollectiveReduce") for node in nodes) and "AddN" not in nodes


@pytest.mark.parametrize(
    "num_gpus, rank, strategy",
    [(0, 0, "RING"), (2, 0, "NCCL"), (0, 1, "RING"), (0, None, None)],  # rank None is the evaluator
)
def test_workers_use_nccl_on_gpus_and_rings_on_cpus(machine, monkeypatch, num_gpus, rank, strategy):
    machine([H100] * num_gpus)
    kinds = strategies.tf.compat.v1.distribute.experimental
    monkeypatch.setattr(kinds, "MultiWorkerMirroredStrategy", lambda kind: kind.value)
    monkeypatch.setattr(strategies.cluster_lib, "check_port", lambda cluster: None)
    task = cluster.Cluster(("a:1", "b:2"), "e:3", rank)
    assert strategies.build_strategy(training_config.TrainConfig(), task) == strategy


@pytest.mark.parametrize(
    "num_gpus, evaluator, growth, count",
    [(1, "a:9", "", 1), (1, "a:9", "true", 0), (1, "e:9", "", 0), (0, "a:9", "", 0), (1, None, "", 0)],
)
def test_an_evaluator_on_the_machine_of_a_worker_is_warned_about(
    machine, monkeypatch, log, num_gpus, evaluator, growth, count
):
    machine([H100] * num_gpus)
    shared = cluster.Cluster(("a:1", "b:2"), evaluator, 0)
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", growth)
    strategies.check_hardware(training_config.TrainConfig(), shared)
    assert len(log) == count
    assert all("start the evaluator with CUDA_VISIBLE_DEVICES=" in line for line in log)


@pytest.mark.parametrize(
    "settings, num_cpus, jit_level",
    [({}, 1, 0), ({"num_cpu_replicas": 3}, 3, 0), ({"xla": True}, 1, tf.compat.v1.OptimizerOptions.ON_1)],
)
def test_the_session_follows_the_flags(settings, num_cpus, jit_level):
    session = strategies.session_config(training_config.TrainConfig(**settings))
    assert session.device_count["CPU"] == num_cpus
    assert session.graph_options.optimizer_options.global_jit_level == jit_level
    # All GPUs launch collectives in the same order.
    assert session.experimental.collective_nccl and session.allow_soft_placement


CLUSTER = cluster.Cluster(("a:1", "b:2"), None, 0)


def test_cpu_replicas_in_a_cluster_are_refused():
    with pytest.raises(errors.UserError, match="num_cpu_replicas is 2 and TF_CONFIG lists 2 workers, but e"):
        strategies.check_hardware(training_config.TrainConfig(num_cpu_replicas=2), CLUSTER)
    strategies.check_hardware(training_config.TrainConfig(num_cpu_replicas=2), None)


@pytest.mark.parametrize("xla, num_gpus, count", [(True, 0, 1), (True, 1, 0), (False, 0, 0)])
def test_xla_on_a_cpu_is_warned_about(machine, log, xla, num_gpus, count):
    machine([H100] * num_gpus)
    strategies.check_hardware(training_config.TrainConfig(xla=xla), CLUSTER)
    assert len(log) == count and all("a step took three times as long" in line for line in log)


def check(precision):
    strategies.check_hardware(training_config.TrainConfig(precision=precision), None)


@pytest.mark.parametrize(
    "cpu_flags, gpus, wanted, said",
    [
        ("avx2", [], "float32", None),
        ("avx512_bf16", [], "bfloat16", None),
        ("amx_bf16 amx_tile", [], "bfloat16", None),
        ("avx2", [(7, 0), (9, 0)], "float16", None),
        ("avx2", [(8, 0), (9, 0)], "bfloat16", None),
        ("avx512_bf16", [], "float16", "--precision=float16 needs a GPU with compute capability 7.0 or high"),
        ("avx2", [(7, 5), (6, 1)], "float16", "needs compute capability 7.0 or higher, but GPU:1 has 6.1"),
        ("avx512f", [], "bfloat16", "without a GPU needs a CPU with avx512_bf16 or amx_bf16, but this CPU"),
        ("avx512_bf16", [(7, 5)], "bfloat16", "needs compute capability 8.0 or higher, but GPU:0 has 7.5"),
    ],
)
def test_a_precision_that_the_hardware_lacks_is_refused(machine, cpu_flags, gpus, wanted, said):
    machine(gpus, cpu_flags)
    with pytest.raises(errors.UserError, match=said) if said else contextlib.nullcontext():
        check(wanted)


def test_without_cpu_information_bfloat16_is_refused(machine, monkeypatch, tmp_path):
    machine()
    monkeypatch.setattr(cpu, "INFO_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(errors.UserError, match="needs a CPU with avx512_bf16"):
        check("bfloat16")


def test_bfloat16_needs_onednn(machine, monkeypatch):
    machine(cpu_flags="avx512_bf16")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    said = "needs oneDNN on a CPU, but TF_ENABLE_ONEDNN_OPTS=0 turns it off"
    with pytest.raises(errors.UserError, match=said):
        check("bfloat16")


def multiply(precision):
    """Multiplies two random matrices; returns the product, NumPy's product, and True if bfloat16 was used."""
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=[64, 64]).astype(np.float32) for _ in range(2))
    config = strategies.session_config(training_config.TrainConfig(precision=precision))
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        inputs = [tf.compat.v1.placeholder(tf.float32, [64, 64]) for _ in range(2)]
        product = tf.identity(tf.nn.relu(tf.matmul(*inputs)) + 0.0)
        metadata = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        result = session.run(product, dict(zip(inputs, (left, right))), options, metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    types = {value.type for node in nodes for value in node.attr.values()}
    return result, np.maximum(left @ right, 0), tf.bfloat16.as_datatype_enum in types


def test_bfloat16_changes_the_ops_and_barely_the_result():
    try:
        check("bfloat16")
    except errors.UserError as error:
        pytest.skip(str(error))
    result, exact, has_bfloat16 = multiply("bfloat16")
    assert has_bfloat16 and result.dtype == np.float32
    np.testing.assert_allclose(result, exact, atol=0.2)  # 64 products of about 1 with errors up to 1/256 each


def test_float32_leaves_the_graph_as_it_is():
    result, exact, has_bfloat16 = multiply("float32")
    assert not has_bfloat16
    np.testing.assert_allclose(result, exact, atol=1e-4)


@pytest.mark.parametrize("num_gpus, kind, rewrite", [(0, tf.float32, 1), (1, tf.bfloat16, 0)])
def test_bfloat16_is_a_rewrite_on_cpus_and_casts_on_gpus(machine, num_gpus, kind, rewrite):
    machine([H100] * num_gpus)
    config = training_config.TrainConfig(precision="bfloat16")
    assert strategies.product_type(config, training=True) == kind
    assert strategies.product_type(config, training=False) == tf.float32
    rewrites = strategies.session_config(config).graph_options.rewrite_options
    assert rewrites.auto_mixed_precision_onednn_bfloat16 == rewrite


@pytest.mark.parametrize("kind, on", [("float32", (0, 0)), ("float16", (1, 0)), ("bfloat16", (0, 1))])
def test_float16_is_the_rewrite_for_gpus_and_never_the_one_that_crashes(kind, on):
    config = strategies.session_config(training_config.TrainConfig(precision=kind))
    options = config.graph_options.rewrite_options
    assert (options.auto_mixed_precision, options.auto_mixed_precision_onednn_bfloat16) == on
    assert options.auto_mixed_precision_cpu == 0


@pytest.mark.parametrize(
    "num_gpus, num_replicas, task, line",
    [
        (0, 1, None, "training on 1 CPU, 2 cores"),
        (0, 2, None, "training on 1 CPU as 2 replicas, 2 cores"),
        (2, 1, None, "training on 2 GPUs (NVIDIA T4)"),
        (0, 1, 1, "training as worker-1 of 2 workers (a:1, b:2) on 1 CPU, 2 cores"),
        (0, 1, "evaluator", "evaluating each checkpoint on 1 CPU, 2 cores"),
    ],
)
def test_the_devices_of_a_process_are_logged_in_one_line(machine, log, num_gpus, num_replicas, task, line):
    machine([H100] * num_gpus)
    rank = None if task == "evaluator" else task
    strategies.log_devices(num_replicas, task and cluster.Cluster(("a:1", "b:2"), "e:9", rank))
    assert log == [line]


@pytest.mark.parametrize("found", [{"device_file": True}, {"on_pci_bus": "NVIDIA GPU at 0000:01:00.0"}])
def test_a_gpu_that_tensorflow_cannot_use_is_warned_about(machine, log, found):
    machine(**found)
    strategies.log_devices(1, None)
    said = "a GPU is present but TensorFlow cannot use it, so training runs on the CPU; run python -m"
    assert log == [f"{said} estimator_asr.doctor", "training on 1 CPU, 2 cores"]
