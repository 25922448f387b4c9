from __future__ import annotations

import pytest

from estimator_asr import training_config
from estimator_asr.training.distributed import cluster, strategies
from tfrecord_builder import errors


def show_gpus(monkeypatch, count):
    monkeypatch.setattr(strategies.tf.config, "list_physical_devices", lambda kind: ["GPU"] * count)


@pytest.mark.parametrize("num_gpus", [0, 1])
def test_a_single_device_has_no_strategy(monkeypatch, num_gpus):
    show_gpus(monkeypatch, num_gpus)
    assert strategies.build_strategy(training_config.TrainConfig()) is None


def test_several_gpus_share_the_batch_without_a_flag(monkeypatch):
    show_gpus(monkeypatch, 2)
    monkeypatch.setattr(strategies.tf.distribute, "MirroredStrategy", lambda *devices: ("mirrored", devices))
    assert strategies.build_strategy(training_config.TrainConfig()) == ("mirrored", ())
    assert strategies.build_strategy(training_config.TrainConfig(num_cpu_replicas=2)) == (
        "mirrored",
        (["/cpu:0", "/cpu:1"],),
    )


def test_the_session_has_a_device_for_each_cpu_replica():
    session = strategies.session_config(training_config.TrainConfig(num_cpu_replicas=3))
    assert session.device_count["CPU"] == 3 and session.allow_soft_placement


def test_xla_is_off_unless_asked_for():
    for xla, level in ((False, 0), (True, 1)):
        session = strategies.session_config(training_config.TrainConfig(xla=xla))
        assert session.graph_options.optimizer_options.global_jit_level == level


CLUSTER = cluster.Cluster(("a:1", "b:2"), None, 0)


def test_the_workers_of_a_cluster_have_a_strategy_and_its_evaluator_has_none(monkeypatch):
    monkeypatch.setattr(
        strategies.tf.compat.v1.distribute.experimental, "MultiWorkerMirroredStrategy", lambda: "workers"
    )
    monkeypatch.setattr(strategies.cluster_lib, "check_port", lambda cluster: None)
    for rank, strategy in ((0, "workers"), (1, "workers"), (None, None)):
        found = strategies.build_strategy(
            training_config.TrainConfig(), cluster.Cluster(("a:1", "b:2"), "e:3", rank)
        )
        assert found == strategy


def test_cpu_replicas_in_a_cluster_are_refused():
    with pytest.raises(errors.UserError, match="num_cpu_replicas is 2 and TF_CONFIG lists 2 workers, expect"):
        strategies.check(training_config.TrainConfig(num_cpu_replicas=2), CLUSTER)
    strategies.check(training_config.TrainConfig(num_cpu_replicas=2), None)


@pytest.mark.parametrize("xla, num_gpus, count", [(True, 0, 1), (True, 1, 0), (False, 0, 0)])
def test_xla_on_a_cpu_is_warned_about(monkeypatch, xla, num_gpus, count):
    lines = []
    show_gpus(monkeypatch, num_gpus)
    monkeypatch.setattr(strategies.logging, "warning", lines.append)
    strategies.check(training_config.TrainConfig(xla=xla), CLUSTER)
    assert len(lines) == count and all("a step took three times as long" in line for line in lines)


def test_the_precision_is_in_the_session():
    session = strategies.session_config(training_config.TrainConfig(precision="float16"))
    assert session.graph_options.rewrite_options.auto_mixed_precision == 1
