"""Runs units of work on an engine: processes on this machine, Spark or Ray. Programs call connect().

A unit is a resumable.WorkUnit: a file name that is unique in the run, and a number of items. Running a unit
writes its file and then its JSON file, each atomically, so a unit may run twice, even simultaneously.
Workers receive only units and the settings of their writer; they read and write the files themselves.
The files are byte-for-byte identical for every engine and number of workers, even if workers are lost.

Each engine has its own module with a context manager open_engine(runner, num_workers), listed in ENGINES. The
context manager yields the scheduler's address (empty if there is no scheduler) and a function (task, units,
on_progress). The function yields each unit's tasks.Outcome when the unit ends. If there is a scheduler, the
function also yields the number of active workers every POLL_SECONDS. If workers are lost, the function raises
ChildProcessError, or the subclass failures.WorkerKilledError, after all remaining units have ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.building import resumable
from tfrecord_builder.building.engines import failures, local_engine, ray_engine, spark_engine, tasks
from tfrecord_builder.program import progress_bar

LOCAL = "local"
ENGINES = {LOCAL: local_engine.open_engine, "ray": ray_engine.open_engine, "spark": spark_engine.open_engine}
HELP = (
    "where the work runs: local (processes on this machine), spark://HOST:7077, spark (as spark-submit "
    "is configured), ray://HOST:10001 or ray (the cluster of this machine)"
)
LOST_SECONDS = 45.0  # the run fails if the scheduler does not answer for this long
WAIT_SECONDS = 300.0  # the run fails if no worker runs anything for this long
RunUnits = Callable[..., list]  # (units, writer, title) -> receipts of the units


@contextlib.contextmanager
def connect(runner: str, num_workers: Optional[int] = None, shared: Sequence[str] = ()) -> Iterator[RunUnits]:
    """Connects to an engine; yields a function that runs units (see UnitRunner).

    Args:
        runner: local, spark, spark://HOST:PORT, ray or ray://HOST:PORT.
        num_workers: number of processes for the local engine; if None, one per core.
        shared: paths that all workers must be able to access under the same names.

    Raises UserError if the runner is unknown or not installed, its scheduler does not answer, or num_workers
    is set although the runner is not local.
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
        yield UnitRunner(runner, *opened, tuple(shared))


@dataclasses.dataclass(frozen=True)
class UnitRunner:
    """An open engine that runs units, retries the units of lost workers, and shows the progress."""

    runner: str
    address: str
    engine: Callable[..., Iterator]
    shared: tuple[str, ...]

    def __call__(
        self, units: Sequence[resumable.WorkUnit], writer: resumable.UnitWriter, title: str
    ) -> list[resumable.ShardReceipt]:
        """Runs the units that are not finished yet; returns the receipts of all units, in the same order."""
        finished = {unit.file: writer.find_finished(unit) for unit in units}
        waiting = {unit.file: pickle.dumps(unit) for unit in units if finished[unit.file] is None}
        with Progress(units, title, writer.item) as progress:
            for receipt in filter(None, finished.values()):
                progress.end_unit(tasks.describe(receipt))
            task = tasks.make(writer, self.shared)
            while waiting and self._run_once(task, waiting, progress):
                pass
        for unit in units:
            finished[unit.file] = finished[unit.file] or writer.find_finished(unit)
            if finished[unit.file] is None:
                raise errors.UserError(
                    f"--runner={self.runner}: a worker wrote {unit.file}, but the file is missing from "
                    f"{writer.directory} on this machine; choose a directory that all machines share."
                )
        return list(finished.values())

    def _run_once(self, task: tasks.WorkerTask, waiting: dict[str, bytes], progress: Progress) -> bool:
        """Runs the units in `waiting`, and removes each unit that succeeds.

        Returns True if units remain because workers were lost. Raises UserError if a unit fails, if
        workers were lost before any unit succeeded, or if the engine failed in another way.
        """
        num_before = len(waiting)
        try:
            for outcome in self._watch(self.engine(task, list(waiting.values()), progress.note)):
                if outcome.problem:
                    raise errors.UserError(outcome.problem)
                if waiting.pop(outcome.file, None):  # an engine may run a unit twice
                    progress.end_unit(outcome)
            return False
        except errors.UserError:
            raise
        except Exception as error:  # engines raise different types of errors
            problem = failures.explain(self.runner, error)
            if len(waiting) == num_before or not isinstance(error, ChildProcessError):
                raise problem from error
            logging.warning("%s Retrying %d units of work.", problem, len(waiting))
            return True

    def _watch(self, messages: Iterator) -> Iterator[tasks.Outcome]:
        """Yields the outcomes from an engine's messages; raises UserError after a timeout."""
        worked = answered = time.monotonic()
        for message in messages:
            now = time.monotonic()
            if message:
                worked = now
            if isinstance(message, tasks.Outcome):
                answered = now
                yield message
            elif failures.is_reachable(self.address):
                answered = now
            if now - answered > LOST_SECONDS:
                raise errors.UserError(
                    f"--runner={self.runner}: the scheduler has not answered for {LOST_SECONDS:.0f} seconds; "
                    f"start the scheduler and {failures.KEPT}."
                )
            if now - worked > WAIT_SECONDS:
                raise errors.UserError(
                    f"--runner={self.runner}: no worker has run anything for {WAIT_SECONDS:.0f} seconds; "
                    f"start workers, or wait until other jobs free some, and {failures.KEPT}."
                )


class Progress(progress_bar.ProgressBar):
    """A progress bar that shows the utterances done and rejected, the units done, and the time left."""

    def __init__(self, units: Sequence[resumable.WorkUnit], title: str, item: str):
        super().__init__(total=sum(unit.num_items for unit in units), unit=item, desc=title)
        self._num_units, self._num_ended = len(units), 0
        self._by_file: dict[str, tuple[int, int]] = {}

    @property
    def format_dict(self):
        return {**super().format_dict, "n": round(self.n, 2)}

    def note(self, file: str, num_done: int, num_rejected: int) -> None:
        num_before = self._by_file.get(file, (0, 0))[0]
        self._by_file[file] = (num_done, num_rejected)
        rejected = sum(num_rejected for _, num_rejected in self._by_file.values())
        self.set_postfix(units=f"{self._num_ended}/{self._num_units}", rejected=rejected, refresh=False)
        self.update(num_done - num_before)

    def end_unit(self, outcome: tasks.Outcome) -> None:
        self._num_ended += 1
        self.note(outcome.file, outcome.num_done, outcome.num_rejected)
        for line in outcome.notes:
            self.write(line, file=sys.stderr)
