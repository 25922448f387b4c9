from __future__ import annotations

import pytest

from estimator_asr import config
from estimator_asr.training import strategies


def show_gpus(monkeypatch, count):
    monkeypatch.setattr(strategies.tf.config, "list_physical_devices", lambda kind: ["GPU"] * count)


@pytest.mark.parametrize("num_gpus", [0, 1])
def test_one_device_needs_no_strategy(monkeypatch, num_gpus):
    show_gpus(monkeypatch, num_gpus)
    assert strategies.build_strategy(config.TrainConfig()) is None


def test_several_gpus_share_the_batch_without_a_flag(monkeypatch):
    show_gpus(monkeypatch, 2)
    monkeypatch.setattr(strategies.tf.distribute, "MirroredStrategy", lambda *devices: ("mirrored", devices))
    assert strategies.build_strategy(config.TrainConfig()) == ("mirrored", ())
    assert strategies.build_strategy(config.TrainConfig(num_cpu_replicas=2)) == (
        "mirrored",
        (["/cpu:0", "/cpu:1"],),
    )


def test_the_session_has_a_device_for_each_cpu_replica():
    session = strategies.session_config(config.TrainConfig(num_cpu_replicas=3))
    assert session.device_count["CPU"] == 3 and session.allow_soft_placement


def test_xla_is_off_unless_asked_for():
    for xla, level in ((False, 0), (True, 1)):
        session = strategies.session_config(config.TrainConfig(xla=xla))
        assert session.graph_options.optimizer_options.global_jit_level == level
