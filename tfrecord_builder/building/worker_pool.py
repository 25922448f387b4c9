"""A plan to shards: one process or several, a progress bar, and what an earlier run finished is kept."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
from collections.abc import Iterator, Sequence

import tqdm

from tfrecord_builder import errors
from tfrecord_builder.building import shard_statistics, shard_writer, sharding, worker


def write_shards(
    shards: Sequence[sharding.Shard], settings: sharding.Settings, directory: str, num_workers: int
) -> list[shard_statistics.ShardStatistics]:
    """Writes the shards that are not finished yet.

    Args:
      shards: the whole plan.
      settings: what every shard is made with.
      directory: where to.
      num_workers: number of processes; it changes no byte. One is this process itself.

    Returns:
      The statistics of all shards, in the order of the plan.

    Raises:
      UserError: a shard cannot be written, or a worker was killed.
    """
    finished = {waiting.file: shard_writer.load_finished(waiting, settings, directory) for waiting in shards}
    waiting = [each for each in shards if finished[each.file] is None]
    with _Progress(sum(each.num_items for each in shards)) as progress:
        for statistics in filter(None, finished.values()):
            progress.note_finished(statistics)
        num_workers = min(num_workers, len(waiting))
        for statistics in _run_workers(waiting, settings, directory, num_workers, progress.note):
            finished[statistics.file] = statistics
            progress.note_finished(statistics)
    return [finished[each.file] for each in shards]


class _Progress:
    """The progress bar: utterances done, time left, rejected so far."""

    def __init__(self, num_utterances: int):
        self._by_file: dict[str, tuple[int, int]] = {}
        self._bar = tqdm.tqdm(
            total=num_utterances, unit="utt", desc="building", disable=not sys.stderr.isatty()
        )

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_) -> None:
        self._bar.close()

    def note(self, file: str, done: int, rejected: int) -> None:
        self._bar.update(done - self._by_file.get(file, (0, 0))[0])
        self._by_file[file] = (done, rejected)
        self._bar.set_postfix(rejected=sum(rejected for _, rejected in self._by_file.values()), refresh=False)

    def note_finished(self, statistics: shard_statistics.ShardStatistics) -> None:
        rejected = len(statistics.rejected)
        self.note(statistics.file, statistics.num_records + rejected, rejected)


def _write_here(
    waiting: Sequence[sharding.Shard], settings: sharding.Settings, directory: str, note: worker.Note
) -> Iterator[shard_statistics.ShardStatistics]:
    """Writes the shards in this process: another one would load TensorFlow for nothing."""
    for each in waiting:
        yield _check(worker.write(each, settings, directory, worker.Reporter(each.file, note)))


def _run_workers(
    waiting: Sequence[sharding.Shard],
    settings: sharding.Settings,
    directory: str,
    num_workers: int,
    note: worker.Note,
) -> Iterator[shard_statistics.ShardStatistics]:
    """Yields what the workers counted; hands out the next shard to whoever finished one."""
    if num_workers == 1:
        yield from _write_here(waiting, settings, directory, note)
        return
    queue = list(reversed(waiting))
    processes = {}
    try:
        for _ in range(num_workers):
            connection, process = _start_worker(directory)
            processes[connection] = process
        for connection in list(processes):  # when all have started: a pipe that is full waits for its reader
            _send(connection, processes[connection], settings)
            _hand_out(connection, queue, processes)
        while processes:
            for connection in multiprocessing.connection.wait(list(processes)):
                message = _receive(connection, processes[connection])
                if isinstance(message, shard_statistics.ShardStatistics):
                    yield message
                    _hand_out(connection, queue, processes)
                else:
                    note(*message)
    finally:
        for process in processes.values():
            process.terminate()


def _start_worker(directory: str) -> tuple:
    """Gives our end of the pipe to a new worker, and its process; neither waits for it to be ready."""
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=worker.run, args=(theirs, directory), daemon=True)
    # It unblocks Ctrl-C when it can end without a traceback, which takes it seconds.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()  # so that the pipe ends when the worker does
    return ours, process


def _hand_out(connection, queue: list[sharding.Shard], processes: dict) -> None:
    if queue:
        _send(connection, processes[connection], queue.pop())
    else:
        connection.close()
        processes.pop(connection).join()


def _send(connection, process, message: sharding.Settings | sharding.Shard) -> None:
    try:
        connection.send(message)
    except OSError:
        raise _death(process) from None


def _receive(connection, process) -> tuple | shard_statistics.ShardStatistics:
    try:
        message = connection.recv()
    except (EOFError, OSError):  # a pipe that was not read to its end breaks, another ends
        raise _death(process) from None
    return _check(message)


def _check(message: tuple | shard_statistics.ShardStatistics | errors.UserError):
    if isinstance(message, errors.UserError):
        raise message
    return message


def _death(process) -> errors.UserError:
    """Says that a worker ended before its time; it has let go of the pipe."""
    process.join()
    return errors.UserError(
        f"--num_workers: a worker process ended with code {process.exitcode} before its shard was whole, "
        "expected it to last; pass fewer workers if memory ran out, else see above; finished shards stay."
    )
