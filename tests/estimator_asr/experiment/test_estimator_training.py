"""Tests distributed training with estimator_training, and compares it with TensorFlow 2.15 if installed."""

import copy
import importlib
import json
import types

import pytest
import tensorflow as tf
from tensorflow.python.distribute import distribute_coordinator, distribute_coordinator_context

from estimator_asr.experiment import estimator_api, estimator_training

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "evaluator": ["d:1"]}
TASKS = [("chief", 0), ("worker", 0), ("worker", 1), ("evaluator", 0)]
# Properties with which a RunConfig describes its task.
PROPERTIES = (
    *("task_type", "task_id", "is_chief", "master", "evaluation_master", "num_ps_replicas"),
    *("num_worker_replicas", "global_id_in_cluster", "service"),
)
with_original = pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason="this TensorFlow has no estimator_training of its own"
)


def describe(config):
    described = {name: getattr(config, name) for name in PROPERTIES}
    mode = getattr(config, "_distribute_coordinator_mode", None)
    return {**described, "cluster": config.cluster_spec.as_dict(), "mode": mode}


def make_config(monkeypatch, tf_config, module=estimator_training):
    """Returns a RunConfig with a strategy for one CPU, completed by `module`."""
    monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    run_config = importlib.import_module(estimator_api.RunConfig.__module__)
    monkeypatch.setattr(run_config, "distribute_coordinator_training", module)
    return estimator_api.RunConfig(train_distribute=tf.distribute.OneDeviceStrategy("/cpu:0"))


def make_context(task_type, task_id):
    cluster = {job: hosts for job, hosts in CLUSTER.items() if job != "evaluator" or task_type == "evaluator"}
    return distribute_coordinator._WorkerContext(
        None, tf.train.ClusterSpec(cluster), task_type, task_id, rpc_layer="grpc"
    )


def test_the_coordinator_runs_a_task_of_a_cluster(monkeypatch):
    config = make_config(monkeypatch, {"cluster": CLUSTER, "task": {"type": "worker", "index": 1}})
    assert config.cluster_spec.as_dict() == CLUSTER
    assert estimator_training.should_run_distribute_coordinator(config)


def test_a_cluster_that_was_not_completed_here_needs_no_coordinator():
    config = types.SimpleNamespace(cluster_spec=tf.train.ClusterSpec(CLUSTER))
    assert not estimator_training.should_run_distribute_coordinator(config)


def test_a_single_process_needs_no_coordinator(monkeypatch):
    config = make_config(monkeypatch, {})
    assert (config.is_chief, config.task_type, config.num_worker_replicas) == (True, "worker", 1)
    assert not estimator_training.should_run_distribute_coordinator(config)


@pytest.mark.parametrize(
    "task, expected",
    [
        (
            ("chief", 0),
            dict(is_chief=True, global_id_in_cluster=0, num_worker_replicas=3, master="grpc://a:1"),
        ),
        (
            ("worker", 1),
            dict(is_chief=False, global_id_in_cluster=2, num_worker_replicas=3, master="grpc://c:1"),
        ),
        (("evaluator", 0), dict(is_chief=True, global_id_in_cluster=None, num_worker_replicas=0)),
    ],
)
def test_a_task_has_its_type_id_and_cluster(monkeypatch, task, expected):
    config = make_config(monkeypatch, {"cluster": CLUSTER, "task": {"type": task[0], "index": task[1]}})
    estimator_training._describe_task(config, make_context(*task))
    described = describe(config)
    assert {name: described[name] for name in expected} == expected


@with_original
@pytest.mark.parametrize(
    "tf_config",
    [
        {},
        {"cluster": {"master": ["a:1"], "worker": ["b:1"]}, "task": {"type": "master", "index": 0}},
        *({"cluster": CLUSTER, "task": {"type": name, "index": index}} for name, index in TASKS),
    ],
)
def test_configs_are_completed_as_in_tensorflow(monkeypatch, tf_config):
    original = importlib.import_module("tensorflow.python.distribute.estimator_training")
    ours, theirs = (make_config(monkeypatch, tf_config, module) for module in (estimator_training, original))
    if tf_config.get("cluster") == CLUSTER:
        assert {**describe(ours), "service": None} == {**describe(theirs), "service": None}
        context = make_context(*tf_config["task"].values())
        estimator_training._describe_task(ours, context)
        original._init_run_config_from_worker_context(theirs, context)
    assert describe(ours) == describe(theirs)


def test_estimator_train_and_evaluate_are_refused_in_a_cluster():
    with pytest.raises(ValueError, match="Estimator.train does not support a strategy in a cluster"):
        estimator_training.estimator_train(None, None, None)
    with pytest.raises(ValueError, match="Estimator.evaluate does not support a strategy in a cluster"):
        estimator_training.estimator_evaluate(None, None, None)


def get_mode(estimator):
    return estimator.config._distribute_coordinator_mode


class Recorder:
    """A fake Estimator that records how it is called."""

    done: list = []

    def __init__(self, config):
        self._config = config

    @property
    def config(self):
        return copy.deepcopy(self._config)

    def train(self, input_fn, hooks, max_steps):
        assert self._train_distribution == self.config.train_distribute == "strategy"
        self.done.append(("train", self.config.task_type, hooks, max_steps, get_mode(self)))


@pytest.mark.parametrize("task_type", ["worker", "evaluator"])
def test_workers_train_and_the_evaluator_evaluates_on_a_copy(monkeypatch, task_type):
    config = make_config(monkeypatch, {"cluster": CLUSTER, "task": {"type": task_type, "index": 0}})
    done = Recorder.done = []

    class Executor:
        def __init__(self, estimator, train_spec, eval_spec):
            self.estimator = estimator

        def _start_continuous_evaluation(self):
            done.append(("evaluate", self.estimator.config.task_type, get_mode(self.estimator)))

    def run(train, strategy, evaluate, eval_strategy, **options):
        with make_context(task_type, 0):
            assert distribute_coordinator_context.get_current_worker_context() is not None
            (evaluate if task_type == "evaluator" else train)("strategy")

    monkeypatch.setattr(distribute_coordinator, "run_distribute_coordinator", run)
    spec = types.SimpleNamespace(input_fn=None, hooks=("hook",), max_steps=7)
    config._train_distribute = None  # a strategy cannot be copied outside the coordinator
    estimator = Recorder(config)
    estimator_training.train_and_evaluate(estimator, spec, None, Executor)
    expected = {
        "worker": ("train", "worker", ["hook"], 7, None),
        "evaluator": ("evaluate", "evaluator", None),
    }
    assert done == [expected[task_type]]
    assert get_mode(estimator) == "independent_worker"
