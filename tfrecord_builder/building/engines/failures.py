"""What engines fail with, and the sentence that tells the user."""

from __future__ import annotations

import re
import socket
from typing import NamedTuple, Optional

from tfrecord_builder import errors

KEPT = "run the same command again: finished shards are kept"
_CONNECT_SECONDS = 5.0
_RUNNERS = "local, spark://HOST:7077, spark, ray://HOST:10001 or ray"


class WorkersLost(Exception):
    """Workers were lost before their units were complete; str() is what the engine says."""


class Cause(NamedTuple):
    """A failure that a regular expression recognises in the message of an engine."""

    pattern: str
    fact: str
    advice: str
    is_lasting: bool = True  # another attempt would fail again


_CAUSES = (
    Cause("JAVA_GATEWAY_EXITED|JAVA_HOME", "Spark needs Java", "install Java 17, or set JAVA_HOME"),
    Cause("(?i)master url", "no scheduler is set", "call spark-submit, or pass --runner=spark://HOST:7077"),
    Cause(
        "No module named '(tfrecord_builder|estimator_asr)",
        "a worker does not have this package",
        "install it in the Python of every worker, which for Spark is the one that PYSPARK_PYTHON names",
    ),
    Cause(
        "PYTHON_VERSION_MISMATCH|(?i:version mismatch)|InvalidClassException",
        "a worker has another version of Python or of the engine",
        "install the same versions on every machine",
    ),
    Cause(
        "masters are unresponsive|stopped SparkContext|SparkContext was shut down|Failed to connect to GCS",
        "the scheduler was lost",
        f"start it and {KEPT}",
    ),
    Cause(
        r"OutOfMemory|(?i:memory limit)|(?i:exit code):? (137|-9)\b",
        "a worker was killed, probably because memory ran out",
        f"run fewer workers per machine, and {KEPT}",
        is_lasting=False,
    ),
)


def explain(runner: str, error: Exception, fact: str) -> errors.UserError:
    """Returns the sentence for an error of an engine; `fact` says what happened if no cause is recognised."""
    cause = _find_cause(error) or Cause("", fact, f"see the messages above and {KEPT}")
    return errors.UserError(f"--runner={runner}: {cause.fact} ({one_line(error)}); {cause.advice}.")


def is_lasting(error: Exception) -> bool:
    """Returns True if another attempt would fail with the same error."""
    cause = _find_cause(error)
    return cause is not None and cause.is_lasting


def one_line(error: Exception) -> str:
    """Returns the most telling line of an error's message, in which Spark and Ray put whole tracebacks."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    telling = [line for line in lines if re.search(r"\w(Error|Exception|Failure)\b.*:", line)]
    return (telling or lines or [type(error).__name__])[-1][:300]


def unknown_runner(runner: str) -> errors.UserError:
    """Returns the sentence for a runner that does not exist, or that Apache Beam had."""
    if not runner.endswith("Runner"):
        return errors.UserError(f"--runner is {runner}, expected {_RUNNERS}; choose one of these.")
    cluster = "pass --runner=spark://HOST:7077 or --runner=ray://HOST:10001"
    local = "leave --runner out, and pass --num_workers=N for N processes"
    replacement = local if runner.endswith("DirectRunner") else cluster
    return errors.UserError(f"--runner={runner}: builds no longer use Apache Beam; {replacement}.")


def require_scheduler(runner: str) -> None:
    """Raises UserError if the address of a runner is incomplete, or nothing listens at it."""
    if "://" in runner and not _list_addresses(runner):
        raise errors.UserError(f"--runner={runner}: the port is missing; pass an address as in {_RUNNERS}.")
    reason = find_unreachable(runner)
    if reason is not None:
        raise errors.UserError(
            f"--runner={runner}: no scheduler answers there ({reason}); start one, or correct the address."
        )


def find_unreachable(address: str) -> Optional[OSError]:
    """Returns the error if nothing listens at any host and port of spark://HOST:PORT,... or ray://HOST:PORT."""
    reason = None
    for host, port in _list_addresses(address):
        try:
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
            return None
        except OSError as error:
            reason = error
    return reason


def _list_addresses(address: str) -> list[tuple[str, str]]:
    return re.findall(r"([\w.-]+):(\d+)", address) if re.match("(spark|ray)://", address) else []


def _find_cause(error: Exception) -> Optional[Cause]:
    return next((cause for cause in _CAUSES if re.search(cause.pattern, str(error))), None)
