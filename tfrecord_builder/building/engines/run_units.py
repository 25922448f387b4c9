"""Runs units on an open engine: retries, progress, and timeouts for lost workers or schedulers."""

from __future__ import annotations

import dataclasses
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.building import resumable
from tfrecord_builder.building.engines import failures, tasks
from tfrecord_builder.program import progress_bar

LOST_SECONDS = 45.0  # the run fails if the scheduler does not answer for this long
WAIT_SECONDS = 300.0  # the run fails if no worker runs anything for this long


@dataclasses.dataclass(frozen=True)
class UnitRunner:
    """Runs units on an open engine (see dispatch.py)."""

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
        with _Progress(units, title, writer.item) as progress:
            for receipt in filter(None, finished.values()):
                progress.end_unit(tasks.describe(receipt))
            task = tasks.make(writer, self.shared)
            while waiting and self._run_once(task, waiting, progress):
                pass
        for unit in units:
            finished[unit.file] = finished[unit.file] or writer.find_finished(unit)
            if finished[unit.file] is None:
                raise errors.UserError(
                    f"--runner={self.runner}: a worker wrote {unit.file}, but it is missing in "
                    f"{writer.directory} on this machine; choose a directory that all machines share."
                )
        return list(finished.values())

    def _run_once(self, task: tasks.WorkerTask, waiting: dict[str, bytes], progress: _Progress) -> bool:
        """Runs the units in `waiting` and removes those that succeed.

        Returns True if units remain because workers were lost. Raises UserError if a unit has a problem, if
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
            logging.warning("%d units will run again. %s", len(waiting), problem)
            return True

    def _watch(self, messages: Iterator) -> Iterator[tasks.Outcome]:
        """Yields the outcomes among an engine's messages; raises UserError after a timeout."""
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
                    f"start it and {failures.KEPT}."
                )
            if now - worked > WAIT_SECONDS:
                raise errors.UserError(
                    f"--runner={self.runner}: no worker has run anything for {WAIT_SECONDS:.0f} seconds; "
                    f"start workers, or wait until other jobs free some, and {failures.KEPT}."
                )


class _Progress(progress_bar.ProgressBar):
    """Progress bar that shows utterances done, time left, units done and utterances rejected."""

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
