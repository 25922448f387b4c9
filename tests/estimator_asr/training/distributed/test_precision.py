from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.training.distributed import precision
from tfrecord_builder import errors


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Sets the hardware of the machine."""

    def set_machine(cpu_flags="avx2", gpus=()):
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: fpu {cpu_flags} sse\n")
        monkeypatch.setattr(precision, "_CPU_INFO", str(tmp_path / "cpuinfo"))
        devices = [tf.config.PhysicalDevice(f"GPU:{i}", "GPU") for i in range(len(gpus))]
        monkeypatch.setattr(precision.tf.config, "list_physical_devices", lambda kind: devices)
        details = {device.name: {"compute_capability": gpu} for device, gpu in zip(devices, gpus)}
        monkeypatch.setattr(
            precision.tf.config.experimental, "get_device_details", lambda device: details[device.name]
        )

    return set_machine


def test_supported_precisions_pass(machine):
    machine()
    precision.check("float32")
    machine(cpu_flags="avx512_bf16")
    precision.check("bfloat16")
    machine(cpu_flags="amx_bf16 amx_tile")
    precision.check("bfloat16")
    machine(gpus=[(7, 0), (9, 0)])
    precision.check("float16")


@pytest.mark.parametrize(
    "cpu_flags, gpus, wanted, said",
    [
        ("avx512_bf16", [], "float16", "--precision=float16 without a GPU that TensorFlow can use, expected"),
        ("avx2", [(7, 5), (6, 1)], "float16", "float16 with GPU:1 of compute capability 6.1, expected 7.0"),
        ("avx512f", [], "bfloat16", "bfloat16 on a CPU without avx512_bf16 and amx_bf16, expected one of"),
        ("avx512_bf16", [(8, 0)], "bfloat16", "on a machine that trains on its GPU, .* --precision=float16"),
    ],
)
def test_unsupported_precisions_are_refused_with_the_reason(machine, cpu_flags, gpus, wanted, said):
    machine(cpu_flags, gpus)
    with pytest.raises(errors.UserError, match=said):
        precision.check(wanted)


def test_without_cpu_information_bfloat16_is_refused(machine, monkeypatch, tmp_path):
    machine()
    monkeypatch.setattr(precision, "_CPU_INFO", str(tmp_path / "nowhere"))
    with pytest.raises(errors.UserError, match="on a CPU without avx512_bf16"):
        precision.check("bfloat16")


def test_bfloat16_needs_onednn(machine, monkeypatch):
    machine(cpu_flags="avx512_bf16")
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    with pytest.raises(errors.UserError, match="with TF_ENABLE_ONEDNN_OPTS=0, expected oneDNN"):
        precision.check("bfloat16")


def multiply(kind):
    """Product of two random matrices with the session of a precision, and the types of the graph that ran."""
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=[64, 64]).astype(np.float32) for _ in range(2))
    config = tf.compat.v1.ConfigProto()
    precision.rewrite(config, kind)
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
        precision.check("bfloat16")
    except errors.UserError as error:
        pytest.skip(str(error))
    result, exact, has_bfloat16 = multiply("bfloat16")
    assert has_bfloat16 and result.dtype == np.float32
    np.testing.assert_allclose(result, exact, atol=0.2)  # 64 products of about 1, each to 1 of 256


def test_float32_changes_nothing():
    result, exact, has_bfloat16 = multiply("float32")
    assert not has_bfloat16
    np.testing.assert_allclose(result, exact, atol=1e-4)


def test_float16_is_the_rewrite_for_gpus_and_never_the_one_that_crashes():
    for kind, on in (("float32", (0, 0)), ("float16", (1, 0)), ("bfloat16", (0, 1))):
        config = tf.compat.v1.ConfigProto()
        precision.rewrite(config, kind)
        options = config.graph_options.rewrite_options
        assert (options.auto_mixed_precision, options.auto_mixed_precision_onednn_bfloat16) == on
        assert options.auto_mixed_precision_cpu == 0
