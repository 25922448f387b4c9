from __future__ import annotations

from estimator_asr import config
from estimator_asr.training import strategies


def test_one_device_needs_no_strategy():
    assert strategies.build_strategy(config.TrainConfig()) is None


def test_the_session_has_a_device_for_each_cpu_replica():
    session = strategies.session_config(config.TrainConfig(num_cpu_replicas=3))
    assert session.device_count["CPU"] == 3 and session.allow_soft_placement


def test_xla_is_off_unless_asked_for():
    for xla, level in ((False, 0), (True, 1)):
        session = strategies.session_config(config.TrainConfig(xla=xla))
        assert session.graph_options.optimizer_options.global_jit_level == level
