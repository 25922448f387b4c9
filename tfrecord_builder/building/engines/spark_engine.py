"""Runs units on Spark, in a job with one partition per unit; an accumulator collects the outcomes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

from tfrecord_builder.building.engines import tasks

POLL_SECONDS = 5.0


@contextlib.contextmanager
def open_engine(runner: str, num_workers: Optional[int]) -> Iterator[tuple[str, Callable]]:
    """Yields the engine (see dispatch.py); the runner `spark` uses the master that spark-submit set."""
    import pyspark

    settings = pyspark.SparkConf().setAppName("estimator-asr").set("spark.ui.showConsoleProgress", "false")
    context = pyspark.SparkContext(conf=settings if runner == "spark" else settings.setMaster(runner))
    with context:  # stops the context on exit
        context.setLogLevel("ERROR")
        yield context.master, functools.partial(_run, pyspark, context)


def _run(pyspark: Any, context: Any, task: tasks.WorkerTask, units: Sequence[bytes], _: Any) -> Iterator:
    lists = pyspark.accumulators.AddingAccumulatorParam([])
    outcomes, failures, num_reported, is_running = context.accumulator([], lists), [], 0, True

    def run_job() -> None:
        try:
            context.parallelize(units, len(units)).foreach(lambda unit: outcomes.add([task(unit)]))
        except Exception as error:  # errors in Java arrive as several types of Py4J errors
            failures.append(error)

    job = pyspark.InheritableThread(target=run_job, daemon=True)
    job.start()
    while is_running:
        job.join(POLL_SECONDS)
        is_running = job.is_alive()  # read before the outcomes, which arrive until the job ends
        ended = outcomes.value[num_reported:]
        num_reported += len(ended)
        yield from ended
        stages = map(context.statusTracker().getStageInfo, context.statusTracker().getActiveStageIds())
        yield sum(stage.numActiveTasks for stage in stages if stage)
    if failures:
        raise ChildProcessError(failures[0]) from failures[0]
