from __future__ import annotations

import pytest

from estimator_asr import training_config
from estimator_asr.training.distributed import cluster, strategies
from tfrecord_builder import errors


def show_gpus(monkeypatch, count):
    monkeypatch.setattr(strategies.tf.config, "list_physical_devices", lambda kind: ["GPU"] * count)


@pytest.mark.parametrize("num_gpus", [0, 1])
def test_one_device_needs_no_strategy(monkeypatch, num_gpus):
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


def test_a_cluster_trains_together_and_its_evaluator_alone(monkeypatch):
    monkeypatch.setattr(
        strategies.tf.compat.v1.distribute.experimental, "MultiWorkerMirroredStrategy", lambda: "workers"
    )
    monkeypatch.setattr(strategies.cluster_lib, "check_port", lambda cluster: None)
    for rank, strategy in ((0, "workers"), (1, "workers"), (None, None)):
        monkeypatch.setenv("TF_CONFIG", cluster.Cluster(("a:1", "b:2"), "e:3", rank).to_json())
        assert strategies.build_strategy(training_config.TrainConfig()) == strategy


def test_a_wrong_tf_config_is_refused(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(errors.UserError, match="TF_CONFIG: is not JSON"):
        strategies.build_strategy(training_config.TrainConfig())


@pytest.mark.parametrize(
    "settings, of_cluster, said",
    [
        (
            {"num_local_workers": 2},
            CLUSTER,
            "TF_CONFIG lists 2 workers and --num_local_workers=2, expected one of them",
        ),
        ({"num_cpu_replicas": 2}, CLUSTER, "--num_cpu_replicas=2 with several workers, expected 1"),
        ({"num_cpu_replicas": 2, "num_local_workers": 2}, None, "--num_cpu_replicas=2 with several workers"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, of_cluster, said):
    with pytest.raises(errors.UserError, match=said):
        strategies.check(training_config.TrainConfig(**settings), of_cluster)


def test_sound_settings_are_not(monkeypatch):
    strategies.check(training_config.TrainConfig(), CLUSTER)
    strategies.check(training_config.TrainConfig(num_local_workers=2), None)


def test_the_precision_is_in_the_session():
    session = strategies.session_config(training_config.TrainConfig(precision="float16"))
    assert session.graph_options.rewrite_options.auto_mixed_precision == 1
