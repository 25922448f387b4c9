import json
import socket
import time

import pytest

from estimator_asr.training.distributed import cluster
from tfrecord_builder import errors

TWO = {"worker": ["a:1", "b:2"]}
BUT = "but the cluster has {} tasks of this type, numbered from 0"


def make(jobs, task_type="worker", index=0, **more):
    return json.dumps({"cluster": jobs, "task": {"type": task_type, "index": index}, **more})


@pytest.mark.parametrize(
    "jobs, task_type, index, name, workers",
    [
        (TWO, "worker", 0, "chief", ("a:1", "b:2")),
        (TWO, "worker", 1, "worker-1", ("a:1", "b:2")),
        ({"chief": ["c:3"], **TWO}, "chief", 0, "chief", ("c:3", "a:1", "b:2")),
        ({"chief": ["c:3"], **TWO}, "worker", 0, "worker-1", ("c:3", "a:1", "b:2")),
        ({**TWO, "evaluator": ["e:9"]}, "evaluator", 0, "evaluator", ("a:1", "b:2")),
        (TWO, "evaluator", 0, "evaluator", ("a:1", "b:2")),  # Kubeflow does not list the evaluator
    ],
)
def test_the_task_of_a_process_is_found(jobs, task_type, index, name, workers):
    found = cluster.parse_tf_config(make(jobs, task_type, index))
    assert (found.name, found.workers) == (name, workers)
    assert found.is_chief == (name == "chief") and found.is_evaluator == (name == "evaluator")
    assert found.evaluator == ("e:9" if "evaluator" in jobs else None)


def test_tf_estimator_gets_the_chief_that_its_evaluator_needs():
    environment = {"TF_CONFIG": make({**TWO, "evaluator": ["e:9"]}, "worker", 1)}
    found = cluster.read_tf_config(environment)
    cluster.write_tf_config(found, environment)
    assert json.loads(environment["TF_CONFIG"]) == {
        "cluster": {"chief": ["a:1"], "worker": ["b:2"], "evaluator": ["e:9"]},
        "task": {"type": "worker", "index": 0},
    }
    assert cluster.read_tf_config(environment) == found


def test_the_evaluator_and_the_chief_keep_their_task():
    for rank, task in ((None, {"type": "evaluator", "index": 0}), (0, {"type": "chief", "index": 0})):
        assert json.loads(cluster.Cluster(("a:1", "b:2"), "e:9", rank).to_json())["task"] == task


@pytest.mark.parametrize("text", ["", " ", "{}", '{"cluster": {}}', make({"worker": ["a:1"]})])
def test_a_single_process_has_no_cluster_and_no_tf_config(text):
    environment = {"TF_CONFIG": text}
    assert cluster.read_tf_config(environment) is None and environment == {"TF_CONFIG": text}
    cluster.write_tf_config(None, environment)
    assert environment == {}


def test_a_single_worker_with_an_evaluator_is_a_cluster():
    jobs = {"worker": ["a:1"], "evaluator": ["e:9"]}
    assert cluster.read_tf_config({"TF_CONFIG": make(jobs)}).is_chief


@pytest.mark.parametrize(
    "text, said",
    [
        ("{", 'TF_CONFIG: the value is not valid JSON .*, expected {"cluster": '),
        ("[" * 100_000, r"TF_CONFIG: the value is not valid JSON \(it is nested too deeply\), expected {"),
        ("[1]", r"TF_CONFIG: the value is \[1\], expected"),
        ('{"cluster": ["a:1"]}', r"cluster is \['a:1'\]"),
        (
            make({**TWO, "ps": ["p:1"]}),
            "ps is not supported, .* never exit; use only chief, worker, evaluator",
        ),
        (make({"master": ["a:1"]}), "cluster lists master, expected only chief, worker, evaluator"),
        (make({"chief": ["a:1", "b:2"]}, "chief"), "has 2 tasks of type chief, expected at most one"),
        (make({**TWO, "evaluator": ["a:3", "b:4"]}), "has 2 tasks of type evaluator, expected at most one"),
        (make({"evaluator": ["e:9"]}, "evaluator"), "the cluster has no worker; list at least one"),
        (make({"worker": "a:1"}), "worker is 'a:1', expected a list of HOST:PORT"),
        (make({"worker": ["a", "b:2"]}), "worker address is 'a', expected HOST:PORT"),
        (make({"worker": ["a:1", "b:70000"]}), "worker address is 'b:70000', expected HOST:PORT"),
        (make({"worker": ["a:1", "a:1"]}), "some workers have the same address: a:1, a:1"),
        (make(TWO, "worker", 2), f"task is worker 2, {BUT.format(2)}"),
        (make(TWO, "worker", -1), f"task is worker -1, {BUT.format(2)}"),
        (make(TWO, "chief"), f"task is chief 0, {BUT.format(0)}"),
        (make(TWO, "evaluator", 1), f"task is evaluator 1, {BUT.format(1)}"),
        (make(TWO, "ps"), "task type is 'ps', expected one of chief, worker, evaluator"),
        (make(TWO, "worker", "0"), "task is {'type': 'worker', 'index': '0'}, expected the form"),
        ('{"cluster": {"worker": ["a:1", "b:2"]}}', "task is None, expected the form"),
    ],
)
def test_an_invalid_tf_config_is_refused(text, said):
    with pytest.raises(errors.UserError, match=said):
        cluster.read_tf_config({"TF_CONFIG": text})


def test_a_port_in_use_is_refused():
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        address = f"localhost:{listener.getsockname()[1]}"
        worker = cluster.Cluster(("a:1", address), None, 1)
        said = f"TF_CONFIG: cannot listen on {address}, the address of this task"
        with pytest.raises(errors.UserError, match=said):
            cluster.check_port(worker)
    cluster.check_port(worker)


def test_workers_that_do_not_answer_are_waited_for_at_the_same_time(monkeypatch):
    def wait(address, timeout):
        time.sleep(0.5)
        raise TimeoutError

    monkeypatch.setattr(cluster.socket, "create_connection", wait)
    peers = cluster.Peers(cluster.Cluster(tuple(f"w{i}:1" for i in range(9)), None, 0))
    started = time.monotonic()
    peers.ask()
    assert time.monotonic() - started < 2  # one after another, they would take 4 s
    assert len(peers.describe_missing()) == 8
