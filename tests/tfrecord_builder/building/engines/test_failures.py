import socket

import pytest

from tfrecord_builder import errors
from tfrecord_builder.building.engines import failures

_PYTHON = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times, most \
recent failure: Lost task 0.3 in stage 0.0 (TID 6) (10.0.0.1 executor 0): {error}
  File "worker.py", line 93, in check
{error}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(Runner.scala:1)
Caused by: java.io.IOException: error=2, No such file or directory
"""
_LOST = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed, most \
recent failure: Lost task 0.3 (10.0.0.1 executor 3): ExecutorLostFailure (executor 3 exited) Reason: {reason}
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
"""


def _in_python(error):
    return _PYTHON.format(error=error)


def _lost(reason):
    return _LOST.format(reason=reason)


@pytest.mark.parametrize(
    "message, said",
    [
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending", "Spark needs Java ("),
        (
            _in_python("ImportError: No module named 'estimator_asr'"),
            "not installed on a worker (ImportError: ",
        ),
        (
            _in_python('OSError: Cannot run program "/usr/python4"'),
            "cannot start Python (OSError: Cannot run",
        ),
        (
            _in_python("base.PySparkError: [PYTHON_VERSION_MISMATCH]: 3.10"),
            "of the engine (base.PySparkError: [",
        ),
        ("Version mismatch: The cluster was started with: Ray: 2.9", "different versions of Python or of"),
        ("the Ray client has already been disconnected due to an error", "the scheduler was lost or"),
        ("java.lang.IllegalStateException: SparkContext has been shutdown", "the scheduler was lost or"),
        (_lost("Command exited with code 137"), "because memory ran out (Lost task 0.3 (10"),
        (_in_python("Python worker exited unexpectedly (crashed)."), "because memory ran out (Lost"),
        (_lost("worker lost"), "the engine failed ("),
    ],
)
def test_errors_of_engines_are_explained(message, said):
    sentence = str(failures.explain("spark", RuntimeError(message)))
    assert sentence.startswith("--runner=spark: ") and said in sentence and "\n" not in sentence


def test_a_killed_worker_is_explained():
    sentence = str(failures.explain("ray", failures.WorkerKilledError("gone")))
    assert "--runner=ray: a worker was killed, probably because memory ran out (gone); run fewer" in sentence


def test_a_traceback_is_reduced_to_its_last_error():
    said = "Traceback (most recent call last):\n  File x\nKeyError: 'y'\n"
    assert failures.one_line(RuntimeError(said)) == "KeyError: 'y'"
    assert failures.one_line(RuntimeError(_lost("worker lost"))).endswith("Reason: worker lost")
    assert failures.one_line(TimeoutError()) == "TimeoutError"


@pytest.mark.parametrize(
    "runner, said",
    [
        ("DirectRunner", "no longer use Apache Beam; pass --num_workers=N for processes on this machine, or"),
        ("FlinkRunner", "--runner=spark://HOST:7077 or --runner=ray://HOST:10001 for a cluster."),
        ("DataflowRunner", "--runner=spark://HOST:7077 or --runner=ray://HOST:10001 for a cluster."),
        ("slurm", "--runner is slurm, expected local, spark://HOST:7077, spark, ray://HOST:10001 or ray; c"),
    ],
)
def test_unknown_runners_are_refused(runner, said):
    assert said in str(failures.unknown_runner(runner))


def test_every_address_of_a_scheduler_is_tried():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert failures.is_reachable(f"spark://127.0.0.1:9,127.0.0.1:{port}")
        failures.require_scheduler(f"ray://127.0.0.1:{port}")
    assert not failures.is_reachable(f"spark://127.0.0.1:{port}")
    for without_address in ("local", "ray", "spark", "yarn", "k8s://https://host:443"):
        assert failures.is_reachable(without_address)


def test_a_missing_scheduler_or_port_is_reported():
    message = "--runner=ray://127.0.0.1:9: no scheduler answers at this address; "
    with pytest.raises(errors.UserError, match=message):
        failures.require_scheduler("ray://127.0.0.1:9")
    message = "--runner=spark://host: the port is missing; pass one of local, "
    with pytest.raises(errors.UserError, match=message):
        failures.require_scheduler("spark://host")
