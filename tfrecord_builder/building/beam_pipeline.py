"""A plan to shards on Apache Beam: the same as writer, on as many machines as a runner has.

Nothing but the name of a shard travels: each worker reads its items from the staging directory, and writes
there. So that directory and the corpus must be where every worker sees them.
"""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence

import tqdm

from tfrecord_builder import errors, files
from tfrecord_builder.building import shard_statistics, shard_writer, sharding, worker

_LOOK_SECONDS = 2.0
# Beam's loggers that tell where a job is and how it stands.
_TELLING = ("runners.dataflow", "runners.portability.portable_runner")
_COUNTERS = "tfrecord_builder"  # namespace of the counters that runners show


def check(runner: str, beam_flags: Sequence[str]) -> None:
    """Raises UserError if Beam is not installed, does not know the runner or a flag, or misses one."""
    _import_beam()
    from apache_beam.options import pipeline_options
    from apache_beam.runners import runner as runners
    from apache_beam.runners.portability import portable_runner

    try:
        found = runners.create_runner(runner)
    except (ValueError, ImportError, AttributeError) as error:
        raise errors.UserError(
            f"--runner={runner}: it cannot be used ({_tell(error)}), expected a runner of Apache Beam; "
            "pass DirectRunner, FlinkRunner, SparkRunner or DataflowRunner, or install what it needs."
        ) from error
    has_job_server = isinstance(found, portable_runner.PortableRunner)  # which knows flags of its own
    options = pipeline_options.PipelineOptions(list(beam_flags))
    options.get_all_options(add_extra_args_fn=lambda parser: _check_flags(parser, beam_flags, has_job_server))
    try:
        _make_pipeline(runner, beam_flags)
    except ValueError as error:
        raise errors.UserError(
            f"--runner={runner}: its flags are not complete ({_tell(error)}), expected all that it needs; "
            "pass them in --beam_flags."
        ) from error


def write_shards(
    shards: Sequence[sharding.Shard],
    settings: sharding.Settings,
    directory: str,
    runner: str,
    beam_flags: Sequence[str],
) -> list[shard_statistics.ShardStatistics]:
    """Writes the shards that are not finished yet.

    Args:
      shards: the whole plan.
      settings: what every shard is made with.
      directory: where to; every worker must see it by this name.
      runner: as DirectRunner.
      beam_flags: Beam's own, as --direct_num_workers=2.

    Returns:
      The statistics of all shards, in the order of the plan.

    Raises:
      UserError: Beam or the runner failed, or a shard cannot be written.
    """
    finished = {each.file: shard_writer.load_finished(each, settings, directory) for each in shards}
    waiting = [each for each in shards if finished[each.file] is None]
    for each in waiting:
        _take_error(each, directory)  # of an earlier run
    if waiting:
        with _progress(shards, directory):
            _run(waiting, settings, directory, runner, beam_flags)
    return [finished[each.file] or _collect(each, settings, directory, runner) for each in shards]


def _import_beam():
    logger = logging.getLogger("apache_beam")
    logger.setLevel(logging.WARNING)  # or else it tells every step of every worker
    for name in _TELLING:
        logger.getChild(name).setLevel(logging.INFO)
    try:
        import apache_beam
    except ImportError as error:
        raise errors.UserError(
            f"--runner: Apache Beam cannot be imported ({error}), expected its package; "
            'call pip install "estimator-asr[beam]", or pip install apache-beam==2.69.0.'
        ) from error
    return apache_beam


def _check_flags(parser, beam_flags: Sequence[str], has_job_server: bool) -> None:
    """Raises UserError for a flag that the parser does not know, or a value that it does not take."""

    def refuse(message: str) -> None:
        raise errors.UserError(f"--beam_flags: {message}; see the documentation of Apache Beam's runners.")

    parser.error = refuse  # or else it prints its whole usage and exits
    _, unknown = parser.parse_known_args(list(beam_flags))
    if unknown and not has_job_server:
        known = [name for action in parser._actions for name in action.option_strings]
        close = difflib.get_close_matches(unknown[0].partition("=")[0], known, 1, cutoff=0.8)
        refuse(f"Apache Beam has no flag {unknown[0]}, expected {close[0] if close else 'one of its own'}")


def _make_pipeline(runner: str, beam_flags: Sequence[str]):
    """Makes an empty pipeline; raises ValueError if a flag that the runner needs is missing."""
    beam = _import_beam()
    from apache_beam.options import pipeline_options

    # DirectRunner would first download another runner, Prism; pipelines with this option it runs by itself.
    # There is no trigger here, so that it changes nothing else.
    flags = [f"--runner={runner}", *beam_flags]
    return beam.Pipeline(options=pipeline_options.PipelineOptions(flags, allow_unsafe_triggers=True))


def _run(
    waiting: Sequence[sharding.Shard],
    settings: sharding.Settings,
    directory: str,
    runner: str,
    beam_flags: Sequence[str],
) -> None:
    """Runs the pipeline to its end."""
    beam = _import_beam()
    try:
        with _make_pipeline(runner, beam_flags) as pipeline:
            spread = pipeline | beam.Create(waiting, reshuffle=False) | beam.Reshuffle()
            spread | "WriteShard" >> beam.Map(_write_shard, settings, directory)
    except Exception as error:  # each runner has errors of its own, ours are not among them
        logging.debug("The pipeline failed", exc_info=True)
        raise errors.UserError(
            f"--runner={runner}: the pipeline failed ({_tell(error)}), expected it to run to its end; mend "
            "that and call the build again, with --verbosity=1 to see more: finished shards are kept."
        ) from error


def _write_shard(waiting: sharding.Shard, settings: sharding.Settings, directory: str) -> None:
    """Writes a shard, or beside it the error that prevents it; runs in a worker of Beam."""
    if shard_writer.load_finished(waiting, settings, directory):
        return  # a runner may do again what it lost sight of
    outcome = worker.write(waiting, settings, directory, _Counters())
    if isinstance(outcome, errors.UserError):
        path = _error_path(waiting, directory)
        with files.writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.write(str(outcome))


class _Counters:
    """Counts for the runner what a shard reports: utterances done, and those of them that were rejected."""

    def __init__(self):
        from apache_beam import metrics

        names = ("utterances", "rejected")
        self._counters = [metrics.Metrics.counter(_COUNTERS, name) for name in names]
        self._before = (0, 0)

    def __call__(self, *counts: int) -> None:
        for counter, before, count in zip(self._counters, self._before, counts):
            counter.inc(count - before)
        self._before = counts


def _collect(
    waiting: sharding.Shard, settings: sharding.Settings, directory: str, runner: str
) -> shard_statistics.ShardStatistics:
    """Gives what a worker counted, or raises what it ended with."""
    statistics = shard_writer.load_finished(waiting, settings, directory)
    if statistics is None:
        raise errors.UserError(
            _take_error(waiting, directory)
            or f"--runner={runner}: the pipeline ended without {waiting.file} in {directory}, expected it "
            "there; give an --output_dir that all the workers see by this name."
        )
    return statistics


def _take_error(waiting: sharding.Shard, directory: str) -> str:
    """Gives the error that a worker left, and removes it; empty if there is none."""
    path = _error_path(waiting, directory)
    if not files.exists(path):
        return ""
    with files.open_binary(path) as file:
        message = file.read().decode()
    files.remove(path)
    return message


def _error_path(waiting: sharding.Shard, directory: str) -> str:
    return os.path.join(directory, f"{waiting.file}.error")


@contextlib.contextmanager
def _progress(shards: Sequence[sharding.Shard], directory: str) -> Iterator[None]:
    """Shows how many shards are there: runners tell nothing while they run."""
    marks = {f"{each.file}.json" for each in shards}
    ended = threading.Event()

    def look() -> None:
        with tqdm.tqdm(total=len(marks), unit="shard", desc="building") as bar:
            while not ended.wait(_LOOK_SECONDS):
                with contextlib.suppress(OSError):
                    bar.update(len(marks.intersection(files.list_names(directory))) - bar.n)

    looker = threading.Thread(target=look, daemon=True)
    if sys.stderr.isatty():
        looker.start()
    try:
        yield
    finally:
        ended.set()


def _tell(error: Exception) -> str:
    """Gives what an error says in one line; of a worker's traceback the last."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[-1].strip() if "Traceback (" in text else " ".join(text.split())
