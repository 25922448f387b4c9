"""Turns errors from engines into messages for users."""

from __future__ import annotations

import re
import socket

from tfrecord_builder import errors

KEPT = "run the same command again: finished work is kept"
_CONNECT_SECONDS = 5.0
_RUNNERS = "local, spark://HOST:7077, spark, ray://HOST:10001 or ray"
_PYTHON = "the Python of every worker (for Spark, the interpreter in PYSPARK_PYTHON)"
_KILLED = (
    "a worker was killed, probably because memory ran out",
    f"run fewer workers per machine, and {KEPT}",
)
_CAUSES = (  # (pattern to find in an engine's error, what the error means, what to do)
    ("JAVA_GATEWAY_EXITED|JAVA_HOME", "Spark needs Java", "install Java 17, or set JAVA_HOME"),
    (
        "No module named '(tfrecord|estimator)_",
        "this package is not installed on a worker",
        f"install it in {_PYTHON}",
    ),
    ("Cannot run program", "a worker cannot start Python", f"correct {_PYTHON}"),
    (
        "(?i)version.mismatch|has no attribute",
        "the machines have different versions of Python or of the engine",
        "install the same versions everywhere",
    ),
    (
        "(?i)SparkContext (was|has been) shut ?down|stopped SparkContext|has already been disconnected",
        "the scheduler was lost or has a different version",
        f"start it, check that the versions are the same, and {KEPT}",
    ),
    # Spark reports killed workers only by messages like these; the other engines raise WorkerKilledError.
    (r"OutOfMemory|exited with code 137\b|worker exited unexpectedly", *_KILLED),
)


class WorkerKilledError(ChildProcessError):
    """Raised if a worker was killed, for example because memory ran out."""


def explain(runner: str, error: Exception) -> errors.UserError:
    """Returns a UserError that explains an engine's error."""
    causes = [_KILLED] if isinstance(error, WorkerKilledError) else []
    causes += [cause[1:] for cause in _CAUSES if re.search(cause[0], str(error))]
    fact, advice = (*causes, ("the engine failed", f"see the messages above and {KEPT}"))[0]
    return errors.UserError(f"--runner={runner}: {fact} ({one_line(error)}); {advice}.")


def one_line(error: Exception) -> str:
    """Returns the most informative line of an error message that may contain tracebacks from workers."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    telling = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b.*: ", line)]
    line = telling[-1] if telling else " ".join(lines) or type(error).__name__
    return line.rpartition("most recent failure: ")[2][:300]


def unknown_runner(runner: str) -> errors.UserError:
    """Returns the error for an unknown runner, with a special message for Apache Beam runners."""
    if not runner.endswith("Runner"):
        return errors.UserError(f"--runner is {runner}, expected {_RUNNERS}; choose one of these.")
    return errors.UserError(
        f"--runner={runner}: builds no longer use Apache Beam; pass --num_workers=N for processes on this "
        "machine, or --runner=spark://HOST:7077 or --runner=ray://HOST:10001 for a cluster."
    )


def require_scheduler(runner: str) -> None:
    """Raises UserError if a runner's address is incomplete, or if no scheduler answers at the address."""
    if "://" in runner and not _list_addresses(runner):
        raise errors.UserError(f"--runner={runner}: the port is missing; pass one of {_RUNNERS}.")
    if not is_reachable(runner):
        raise errors.UserError(
            f"--runner={runner}: no scheduler answers at this address; start one or correct the address."
        )


def is_reachable(address: str) -> bool:
    """Returns False if `address`, such as ray://HOST:PORT, names hosts but no host accepts connections."""
    addresses = _list_addresses(address)
    for host, port in addresses:
        try:
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
            return True
        except OSError:
            continue
    return not addresses


def _list_addresses(address: str) -> list[tuple[str, str]]:
    return re.findall(r"([\w.-]+):(\d+)", address) if re.match("(spark|ray)://", address) else []
