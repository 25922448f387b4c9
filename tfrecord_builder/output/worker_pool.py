"""Writes shards in this process or in several, with a progress bar."""

from __future__ import annotations

import functools
import multiprocessing
import multiprocessing.connection
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection

from tfrecord_builder import errors
from tfrecord_builder.output import resumable
from tfrecord_builder.settings import progress_bar

REPORT_EVERY = 16  # utterances


def write_shards(
    shards: Sequence[resumable.Shard], writer: resumable.ShardWriter, title: str, num_workers: int
) -> list[resumable.Written]:
    """Writes the shards that are not finished yet; returns what is known of all, in their order.

    The number of workers (processes) changes no byte; a single one is this process itself. Raises UserError
    if a shard cannot be written or a worker was killed.
    """
    finished = {each.file: writer.find_finished(each) for each in shards}
    waiting = [each for each in shards if finished[each.file] is None]
    with _Progress(sum(each.num_items for each in shards), title) as progress:
        for written in filter(None, finished.values()):
            progress.note_finished(written)
        for written in _run_workers(waiting, writer.write, min(num_workers, len(waiting)), progress):
            finished[written.file] = written
            progress.note_finished(written)
    return [finished[each.file] for each in shards]


def run_worker(connection: Connection) -> None:
    """Runs a worker process: writes every shard that comes through the pipe until it is closed.

    Receives (write, shard). Sends (file, utterances done, utterances rejected) now and then,
    and at the end of each shard what is known of it, or the UserError that ended it.
    """
    # Ctrl-C reaches the whole process group; the parent reports it in one line.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        while True:
            write, shard = connection.recv()
            try:
                connection.send(write(shard, functools.partial(_send_progress, connection, shard.file)))
            except errors.UserError as error:
                connection.send(error)
    except (EOFError, ConnectionError):  # all is done, or the parent died
        return


def _send_progress(connection: Connection, file: str, done: int, rejected: int) -> None:
    if done % REPORT_EVERY == 0:
        connection.send((file, done, rejected))


class _Progress(progress_bar.ProgressBar):
    """Progress bar: utterances done, time left, rejected so far."""

    def __init__(self, num_utterances: int, title: str):
        super().__init__(total=num_utterances, unit="utt", desc=title)
        self._by_file: dict[str, tuple[int, int]] = {}

    def note(self, file: str, done: int, rejected: int) -> None:
        self.update(done - self._by_file.get(file, (0, 0))[0])
        self._by_file[file] = (done, rejected)
        self.set_postfix(rejected=sum(rejected for _, rejected in self._by_file.values()), refresh=False)

    def note_finished(self, written: resumable.Written) -> None:
        rejected = len(written.rejected)
        self.note(written.file, written.num_records + rejected, rejected)


def _run_workers(
    waiting: Sequence[resumable.Shard], write: Callable, num_workers: int, progress: _Progress
) -> Iterator[resumable.Written]:
    """Yields what is known of each shard; a worker that has finished one gets the next."""
    if num_workers == 1:  # another process would import TensorFlow for nothing
        for each in waiting:
            yield write(each, functools.partial(progress.note, each.file))
        return
    queue = [(write, each) for each in reversed(waiting)]
    processes = {}
    try:
        for _ in range(num_workers):
            connection, process = _start_worker()
            processes[connection] = process
        for connection in list(processes):  # after all have started: a full pipe waits for its reader
            _send_next(connection, queue, processes)
        while processes:
            for connection in multiprocessing.connection.wait(list(processes)):
                message = _receive(connection, processes[connection])
                if isinstance(message, tuple):
                    progress.note(*message)
                else:
                    yield message
                    _send_next(connection, queue, processes)
    finally:
        for process in processes.values():
            process.terminate()


def _start_worker() -> tuple:
    """Returns our end of the pipe to a new worker, and its process, without waiting until it is ready."""
    context = multiprocessing.get_context("spawn")  # TensorFlow does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=run_worker, args=(theirs,), daemon=True)
    # The worker unblocks Ctrl-C when it can end without a traceback, which takes it seconds.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    theirs.close()  # so that the pipe ends when the worker does
    return ours, process


def _send_next(connection: Connection, queue: list[tuple], processes: dict) -> None:
    """Sends the next shard, or ends the worker if there is none."""
    if not queue:
        connection.close()
        processes.pop(connection).join()
        return
    try:
        connection.send(queue.pop())
    except OSError:
        raise _worker_died(processes[connection]) from None


def _receive(connection: Connection, process):
    try:
        message = connection.recv()
    except (EOFError, OSError):  # the pipe was closed, or broke before it was read to its end
        raise _worker_died(process) from None
    if isinstance(message, errors.UserError):
        raise message
    return message


def _worker_died(process) -> errors.UserError:
    process.join()  # it has let go of the pipe
    return errors.UserError(
        f"--num_workers: a worker process ended with exit code {process.exitcode} before its shard was "
        "complete; pass fewer workers if memory ran out, otherwise see above. Finished shards are kept."
    )
