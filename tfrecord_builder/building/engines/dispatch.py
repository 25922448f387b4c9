"""Runs units of work on an engine: processes on this machine, Spark or Ray. Programs call connect().

A unit is a resumable.WorkUnit: a file name, unique in its run, and a number of items. Running a unit writes
its file and then its JSON file, each completely or not at all, so a unit may run twice, even simultaneously.
Workers receive only units and the settings of their writer; they read and write the files themselves.
The files are identical byte for byte whatever the engine and the number of workers, even if workers are lost.

An engine is a context manager open_engine(runner, num_workers) in its own module, listed in ENGINES. It
yields its scheduler's address (empty if there is no scheduler) and a function (task, units, on_progress). The
function yields each unit's tasks.Outcome when the unit ends. If there is a scheduler, it also yields the
number of active workers every POLL_SECONDS. If workers are lost, it raises ChildProcessError after all
remaining units have ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.building.engines import failures, local_engine, ray_engine, run_units, spark_engine

LOCAL = "local"
ENGINES = {
    LOCAL: local_engine.open_engine,
    "ray": ray_engine.open_engine,
    "spark": spark_engine.open_engine,
}
HELP = (
    "where the work runs: local (processes on this machine), spark://HOST:7077, spark (as spark-submit "
    "is configured), ray://HOST:10001 or ray (the cluster of this machine)"
)
RunUnits = Callable[..., list]  # (units, writer, title) -> receipts of the units


@contextlib.contextmanager
def connect(runner: str, num_workers: Optional[int] = None, shared: Sequence[str] = ()) -> Iterator[RunUnits]:
    """Connects to an engine; yields a function that runs units (see run_units.UnitRunner).

    Args:
        runner: local, spark, spark://HOST:PORT, ray or ray://HOST:PORT.
        num_workers: processes of the local engine; one per core if None.
        shared: paths that every worker must be able to access under the same name.

    Raises:
        UserError: the runner is unknown or not installed, its scheduler does not answer, or num_workers is
            set although the runner is not local.
    """
    name = runner.partition("://")[0]
    if name not in ENGINES:
        raise failures.unknown_runner(runner)
    if num_workers and runner != LOCAL:
        raise errors.UserError(
            f"--runner={runner} does not support --num_workers={num_workers}; leave --num_workers out, "
            "because the cluster decides how many units run at the same time."
        )
    failures.require_scheduler(runner)
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(ENGINES[name](runner, num_workers))
        except ImportError as error:
            advice = f'run pip install "estimator-asr[{name}]"'
            raise errors.UserError(
                f"--runner={runner}: {name} is not installed ({error}); {advice}."
            ) from error
        except Exception as error:  # engines raise different types of errors
            raise failures.explain(runner, error) from error
        yield run_units.UnitRunner(runner, *opened, tuple(shared))
