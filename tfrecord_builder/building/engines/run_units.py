"""Runs units on an open engine: retries, progress, and how a run without workers or scheduler ends."""

from __future__ import annotations

import dataclasses
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.building.engines import failures, tasks
from tfrecord_builder.output import resumable
from tfrecord_builder.settings import progress_bar

ASK_SECONDS = 10.0  # between two looks for the scheduler
ATTEMPTS = 3
LOST_SECONDS = 45.0  # less than the 60 seconds after which Ray ends the program by itself
WAIT_SECONDS = 300.0


@dataclasses.dataclass(frozen=True)
class Connection:
    """An engine that is open (see dispatch.py)."""

    runner: str
    address: str
    run: Callable[..., Iterator]
    shared: tuple[str, ...]


def run_units(
    connection: Connection,
    units: Sequence[resumable.Shard],
    writer: resumable.ShardWriter,
    title: str,
) -> list[resumable.Written]:
    """Runs the units that are not finished; returns the receipts of all, in their order."""
    finished = {unit.file: writer.find_finished(unit) for unit in units}
    waiting = {unit.file: pickle.dumps(unit) for unit in units if finished[unit.file] is None}
    with _Progress(units, title) as progress:
        for receipt in filter(None, finished.values()):
            progress.end_unit(tasks.describe(receipt))
        _run_until_finished(connection, tasks.make(writer, connection.shared), waiting, progress)
    return [finished[unit.file] or _read_receipt(unit, writer, connection.runner) for unit in units]


def _run_until_finished(
    connection: Connection, task: tasks.Task, waiting: dict[str, bytes], progress: _Progress
) -> None:
    """Runs units, and again those of lost workers; removes from `waiting` those that ended well."""
    num_failed = 0
    while waiting:
        num_before = len(waiting)
        try:
            return _run_once(connection, task, waiting, progress)
        except failures.WorkersLost as lost:
            num_failed = num_failed + 1 if len(waiting) == num_before else 0
            if waiting and (num_failed == ATTEMPTS or failures.is_lasting(lost)):
                raise failures.explain(connection.runner, lost, "workers were lost") from lost
            logging.warning("%d units were lost and run again: %s", len(waiting), failures.one_line(lost))


def _run_once(
    connection: Connection, task: tasks.Task, waiting: dict[str, bytes], progress: _Progress
) -> None:
    messages = connection.run(task, list(waiting.values()), progress.note)
    for outcome in _watch(messages, connection):
        if outcome.traceback:
            logging.error("%s", outcome.traceback)
        if outcome.problem:
            raise errors.UserError(outcome.problem)
        waiting.pop(outcome.file, None)  # an engine may run a unit twice
        progress.end_unit(outcome)


def _watch(messages: Iterator, connection: Connection) -> Iterator[tasks.Outcome]:
    """Yields the outcomes among the messages of an engine, unless none can come any more."""
    worked = answered = asked = time.monotonic()
    try:
        for message in messages:
            now = time.monotonic()
            worked = now if message != 0 else worked
            if isinstance(message, tasks.Outcome):
                yield message
            if now - worked > WAIT_SECONDS:
                raise _no_workers(connection.runner)
            if now - asked > ASK_SECONDS:
                asked, reason = now, failures.find_unreachable(connection.address)
                answered = answered if reason else now
                if now - answered > LOST_SECONDS:
                    raise failures.explain(connection.runner, reason, "the scheduler was lost")
    except (errors.UserError, failures.WorkersLost):
        raise
    except Exception as error:  # each engine has errors of its own
        raise failures.WorkersLost(error) from error


def _no_workers(runner: str) -> errors.UserError:
    return errors.UserError(
        f"--runner={runner}: no worker has run anything for {WAIT_SECONDS / 60:.0f} minutes; start workers, "
        f"or wait until other jobs leave some, and {failures.KEPT}."
    )


def _read_receipt(unit: Any, writer: resumable.ShardWriter, runner: str) -> resumable.Written:
    receipt = writer.find_finished(unit)
    if receipt is None:
        raise errors.UserError(
            f"--runner={runner}: a worker wrote {unit.file}, but it is missing in {writer.directory} on this "
            "machine; choose an --output_dir that all machines see under the same name."
        )
    return receipt


class _Progress(progress_bar.ProgressBar):
    """Progress bar: utterances done, time left, and the numbers of units done and utterances rejected."""

    def __init__(self, units: Sequence[resumable.Shard], title: str):
        super().__init__(total=sum(unit.num_items for unit in units), unit="utt", desc=title)
        self._num_units, self._num_ended = len(units), 0
        self._by_file: dict[str, tuple[int, int]] = {}

    def note(self, file: str, num_done: int, num_rejected: int) -> None:
        num_before = self._by_file.get(file, (0, 0))[0]
        self._by_file[file] = (num_done, num_rejected)
        rejected = sum(num_rejected for _, num_rejected in self._by_file.values())
        self.set_postfix(units=f"{self._num_ended}/{self._num_units}", rejected=rejected, refresh=False)
        self.update(num_done - num_before)

    def end_unit(self, outcome: tasks.Outcome) -> None:
        self._num_ended += 1
        self.note(outcome.file, outcome.num_done, outcome.num_rejected)
