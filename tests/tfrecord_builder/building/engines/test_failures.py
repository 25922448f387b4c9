import socket

import pytest

from tfrecord_builder import errors
from tfrecord_builder.building.engines import failures

LOST = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed, most \
recent failure: Lost task 0.3 (10.0.0.1 executor 3): ExecutorLostFailure (executor 3 exited) Reason: {reason}
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
"""


@pytest.mark.parametrize(
    "message, said, is_lasting",
    [
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending", "Spark needs Java (", True),
        ("[MASTER_URL_NOT_SET] A master URL must be set", "no scheduler is set (", True),
        (
            "ModuleNotFoundError: No module named 'estimator_asr'",
            "a worker does not have this package (",
            True,
        ),
        (
            "Version mismatch: The cluster was started with: Ray: 2.9",
            "a worker has another version of P",
            True,
        ),
        ("All masters are unresponsive! Giving up.", "the scheduler was lost (", True),
        ("ray.exceptions.OutOfMemoryError: Task was killed", "because memory ran out (", False),
        (LOST.format(reason="Command exited with exit code 137"), "because memory ran out (", False),
        (LOST.format(reason="worker lost"), "workers were lost (", False),
    ],
)
def test_what_engines_say_becomes_a_sentence(message, said, is_lasting):
    sentence = str(failures.explain("spark", RuntimeError(message), "workers were lost"))
    assert sentence.startswith("--runner=spark: ") and said in sentence and "\n" not in sentence
    assert failures.is_lasting(RuntimeError(message)) == is_lasting


def test_of_a_traceback_the_last_error_is_told():
    assert failures.one_line(
        RuntimeError("Traceback (most recent call last):\n  File x\nKeyError: 'y'\n")
    ) == ("KeyError: 'y'")
    assert failures.one_line(RuntimeError(LOST.format(reason="worker lost"))).endswith("Reason: worker lost")
    assert failures.one_line(TimeoutError()) == "TimeoutError"


@pytest.mark.parametrize(
    "runner, said",
    [
        ("DirectRunner", "no longer use Apache Beam; leave --runner out, and pass --num_workers=N"),
        ("FlinkRunner", "no longer use Apache Beam; pass --runner=spark://HOST:7077 or --runner=ray://HOST"),
        (
            "DataflowRunner",
            "no longer use Apache Beam; pass --runner=spark://HOST:7077 or --runner=ray://HOST",
        ),
        (
            "slurm",
            "--runner is slurm, expected local, spark://HOST:7077, spark, ray://HOST:10001 or ray; choose",
        ),
    ],
)
def test_runners_that_do_not_exist(runner, said):
    assert said in str(failures.unknown_runner(runner))


def test_a_scheduler_is_looked_for_at_each_of_its_addresses():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert failures.find_unreachable(f"spark://127.0.0.1:9,127.0.0.1:{port}") is None
        failures.require_scheduler(f"ray://127.0.0.1:{port}")
    assert isinstance(failures.find_unreachable(f"spark://127.0.0.1:{port}"), ConnectionRefusedError)
    for without_address in ("local", "ray", "spark", "yarn", "k8s://https://host:443"):
        assert failures.find_unreachable(without_address) is None


def test_no_scheduler_and_no_port():
    with pytest.raises(
        errors.UserError, match="--runner=ray://127.0.0.1:9: no scheduler answers there .*refused"
    ):
        failures.require_scheduler("ray://127.0.0.1:9")
    with pytest.raises(
        errors.UserError, match="--runner=spark://host: the port is missing; pass an address as"
    ):
        failures.require_scheduler("spark://host")
