"""Runs units of work on an engine: processes on this machine, Spark or Ray. Programs call connect().

A unit is a resumable.Shard: a file name, unique in its run, and a number of utterances. Running a unit writes
its file and then its JSON file, each completely or not at all: a unit may run twice, even at the same time.
Workers receive only units and the settings of their writer; they read and write the files themselves.
The files have the same bytes whatever the engine and the number of workers, and if workers are lost.

An engine is a context manager open_engine(runner, num_workers) in its own module, listed in ENGINES. It
yields the address of its scheduler (empty if there is none) and a function (task, units, on_progress). The
function yields the tasks.Outcome of each unit when the unit ends, and if there is a scheduler also the number
of active workers, every POLL_SECONDS. It raises ChildProcessError after all other units if workers were lost.
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
        shared: paths that every worker must see under the same name.

    Raises:
        UserError: the runner is unknown or not installed, its scheduler does not answer, or num_workers is
            set but the runner is not local.
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
