"""Lists corpora, labels chunks and writes shards on Apache Beam, on as many machines as a runner has.

Only the name of a list, chunk or shard travels: each worker reads and writes its files in the staging
directory. So every worker must see that directory and the corpus.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence

from tfrecord_builder import errors
from tfrecord_builder.building import catalog
from tfrecord_builder.corpora import registry
from tfrecord_builder.output import resumable

# Beam's loggers that tell where a job runs and how it proceeds.
_JOB_LOGGERS = ("runners.dataflow", "runners.portability.portable_runner")
_WORKER_THREAD = "run_worker"  # of Beam, which starts a worker process and waits until it ends
_COUNTERS = "tfrecord_builder"  # namespace of the counters that runners show


@dataclasses.dataclass(frozen=True)
class CorpusDirectory:
    """One of --corpus_dir: the file of its list, and its position in the flag."""

    file: str
    position: int
    num_items: int = 0  # not known before it is listed


@dataclasses.dataclass
class Listed(resumable.Written):
    """What is known of a list: the warnings of the reader, and the error that ended it, or empty."""

    warnings: list = dataclasses.field(default_factory=list)
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Lister(resumable.ShardWriter):
    """Lists directories of a corpus, into files for catalog.read_rows."""

    layout: str
    corpus_dirs: tuple[str, ...]
    run: str  # another run lists again: the corpus may have changed

    written_type = Listed

    def fingerprint(self, corpus: CorpusDirectory) -> str:
        return self.run

    def make(self, corpus: CorpusDirectory, path: str, on_progress: resumable.OnProgress) -> Listed:
        listed = Listed(corpus.file)
        utterances = registry.list_utterances(self.layout, self.corpus_dirs, corpus.position)
        rows = _note_problems(map(catalog.to_row, utterances), listed)
        with open(path, "wb") as output:
            output.writelines("\t".join(row).encode() + b"\n" for row in rows)
        return listed


def check(runner: str, beam_flags: Sequence[str]) -> None:
    """Raises UserError if Beam is not installed, does not know the runner or a flag, or lacks a flag."""
    _import_beam()
    from apache_beam.options import pipeline_options
    from apache_beam.runners import runner as runners
    from apache_beam.runners.portability import portable_runner

    try:
        # A job server knows flags of its own.
        has_job_server = isinstance(runners.create_runner(runner), portable_runner.PortableRunner)
        options = pipeline_options.PipelineOptions(list(beam_flags))
        check_flags = functools.partial(_check_flags, beam_flags=beam_flags, has_job_server=has_job_server)
        options.get_all_options(add_extra_args_fn=check_flags)
        _make_pipeline(runner, beam_flags)
    except errors.UserError:
        raise
    except (ValueError, ImportError, AttributeError) as error:
        raise errors.UserError(
            f"--runner={runner}: Apache Beam cannot use it ({_one_line(error)}); pass DirectRunner, "
            "FlinkRunner, SparkRunner or DataflowRunner, what it needs in --beam_flags, or install it."
        ) from error


def write_shards(
    shards: Sequence[resumable.Shard],
    writer: resumable.ShardWriter,
    title: str,
    runner: str,
    beam_flags: Sequence[str],
) -> list[resumable.Written]:
    """Writes the shards (or chunks) that are not finished yet, as worker_pool.write_shards does.

    Raises UserError if Beam or the runner failed, or a shard cannot be written.
    """
    finished = list(map(writer.find_finished, shards))
    waiting = [shard for shard, written in zip(shards, finished) if written is None]
    if waiting:
        _run(waiting, functools.partial(_write, writer), title, runner, beam_flags)
        finished = list(map(writer.find_finished, shards))
    missing = [shard.file for shard, written in zip(shards, finished) if written is None]
    if missing:
        raise errors.UserError(
            f"--runner={runner}: the pipeline ended, but {missing[0]} is missing; "
            "choose an --output_dir that all workers see under this name."
        )
    return finished


def _note_problems(rows: Iterator[catalog.Row], listed: Listed) -> Iterator[catalog.Row]:
    """Yields rows; notes warnings and an error of the reader for the launcher, which tells the user."""
    logger, thread = logging.getLogger("absl"), threading.get_ident()

    def note(record: logging.LogRecord) -> bool:
        if record.thread == thread:
            listed.warnings.append(record.getMessage())
        return record.thread != thread

    logger.addFilter(note)
    try:
        yield from rows
    except (errors.UserError, OSError) as error:  # OSError: of an object store
        listed.error = errors.describe_refusal(error) or str(error)
    finally:
        logger.removeFilter(note)


def _import_beam():
    logger = logging.getLogger("apache_beam")
    logger.setLevel(logging.WARNING)  # otherwise it logs every step of every worker
    for name in _JOB_LOGGERS:
        logger.getChild(name).setLevel(logging.INFO)
    try:
        import apache_beam
    except ImportError as error:
        raise errors.UserError(
            f"--runner: Apache Beam cannot be imported ({error}); "
            'run pip install "estimator-asr[beam]", or pip install apache-beam==2.69.0.'
        ) from error
    return apache_beam


def _check_flags(parser, beam_flags: Sequence[str], has_job_server: bool) -> None:
    """Raises UserError for a flag that the parser does not know, or a value that it does not take."""

    def refuse(message: str) -> None:
        raise errors.UserError(f"--beam_flags: {message}; see the documentation of Apache Beam's runners.")

    parser.error = refuse  # otherwise it prints its whole usage and exits
    _, unknown = parser.parse_known_args(list(beam_flags))
    if unknown and not has_job_server:
        refuse(f"Apache Beam has no flag {unknown[0]}")


def _make_pipeline(runner: str, beam_flags: Sequence[str]):
    """Returns an empty pipeline; raises ValueError if a flag that the runner needs is missing."""
    beam = _import_beam()
    from apache_beam.options import pipeline_options

    # DirectRunner would first download another runner, Prism; pipelines with this option it runs by itself.
    # There is no trigger here, so that it changes nothing else.
    flags = [f"--runner={runner}", *beam_flags]
    return beam.Pipeline(options=pipeline_options.PipelineOptions(flags, allow_unsafe_triggers=True))


def _run(shards: Sequence, write: Callable, title: str, runner: str, beam_flags: Sequence[str]) -> None:
    beam = _import_beam()

    def run_pipeline() -> None:
        with _make_pipeline(runner, beam_flags) as pipeline:
            spread = pipeline | beam.Create(shards, reshuffle=False) | beam.Reshuffle()
            spread | title >> beam.Map(write)

    try:
        _end_with_workers(run_pipeline)
    except Exception as error:  # each runner has errors of its own
        logging.debug("The pipeline failed", exc_info=True)
        raise errors.UserError(
            f"--runner={runner}: the pipeline failed ({_one_line(error)}); fix that and run the build "
            "again, with --verbosity=1 to see more: finished shards are kept."
        ) from error


def _end_with_workers(run_pipeline: Callable[[], None]) -> None:
    """Runs a pipeline in a thread, and raises its error or that of a worker process.

    DirectRunner waits forever for a worker process that was killed, and no signal ends the wait.
    """
    outcomes: queue.SimpleQueue = queue.SimpleQueue()
    report = threading.excepthook

    def note(failure) -> None:
        is_worker = failure.thread.name == _WORKER_THREAD
        outcomes.put(failure.exc_value) if is_worker else report(failure)

    def run() -> None:
        try:
            outcomes.put(run_pipeline())
        except Exception as error:
            outcomes.put(error)

    threading.excepthook = note
    try:
        threading.Thread(target=run, daemon=True).start()
        error = outcomes.get()
    finally:
        threading.excepthook = report
    if error:
        raise error


def _write(writer: resumable.ShardWriter, shard: resumable.Shard) -> None:
    """Writes a shard in a worker of Beam."""
    if not writer.find_finished(shard):  # a runner may repeat one
        writer.write(shard, _Counters())


class _Counters:
    """Counters of the runner: utterances done, and those of them that were rejected."""

    def __init__(self):
        from apache_beam import metrics

        names = ("utterances", "rejected")
        self._counters = [metrics.Metrics.counter(_COUNTERS, name) for name in names]
        self._before = (0, 0)

    def __call__(self, *counts: int) -> None:
        for counter, before, count in zip(self._counters, self._before, counts):
            counter.inc(count - before)
        self._before = counts


def _one_line(error: Exception) -> str:
    """Returns the message of an error in one line; of a worker's traceback the last line."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[-1].strip() if "Traceback (" in text else " ".join(text.split())
