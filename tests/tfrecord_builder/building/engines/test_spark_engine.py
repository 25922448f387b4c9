"""The Spark engine with a fake pyspark module, which runs units in this process."""

import sys
import threading
import types

import pytest

from tfrecord_builder.building.engines import spark_engine, tasks


class Context:
    """A SparkContext that runs its partitions in this process."""

    master, is_stopped, num_running = "spark://host:7077", False, 3

    def __init__(self, conf):
        self.conf = conf

    def __enter__(self):
        return self

    def __exit__(self, *_):
        Context.is_stopped = True

    def setLogLevel(self, level):
        pass

    def accumulator(self, value, param):
        def add(term):
            found.value = param.addInPlace(found.value, term)

        found = types.SimpleNamespace(value=param.zero(value), add=add)
        return found

    def parallelize(self, units, num_slices):
        assert num_slices == len(units)
        return types.SimpleNamespace(foreach=lambda run: [run(unit) for unit in units])

    def statusTracker(self):
        stage = types.SimpleNamespace(numActiveTasks=self.num_running)
        return types.SimpleNamespace(getActiveStageIds=lambda: [7, 8], getStageInfo={7: stage, 8: None}.get)


class Conf(dict):
    def set(self, name, value):
        self[name] = value
        return self

    def setAppName(self, name):
        return self.set("spark.app.name", name)

    def setMaster(self, name):
        return self.set("spark.master", name)


@pytest.fixture(autouse=True)
def _pyspark(monkeypatch):
    monkeypatch.setattr(spark_engine, "POLL_SECONDS", 0.01)
    lists = types.SimpleNamespace(zero=lambda value: [], addInPlace=lambda value, term: value + term)
    accumulators = types.SimpleNamespace(AddingAccumulatorParam=lambda zero_value: lists)
    stand_in = types.SimpleNamespace(SparkConf=Conf, SparkContext=Context, InheritableThread=threading.Thread)
    stand_in.accumulators = accumulators
    monkeypatch.setitem(sys.modules, "pyspark", stand_in)


def _open(runner="spark"):
    return spark_engine.open_engine(runner, None)


def test_outcomes_of_all_units_come_back():
    with _open() as (address, run):
        messages = list(run(lambda unit: tasks.Outcome(unit), ["a", "b"], None))
    assert [each.file for each in messages if isinstance(each, tasks.Outcome)] == ["a", "b"]
    assert address == "spark://host:7077" and Context.is_stopped


def test_running_tasks_are_counted_while_the_job_runs():
    is_seen = threading.Event()

    def wait(unit):
        assert is_seen.wait(10)
        return tasks.Outcome(unit)

    with _open() as (_, run):
        messages = run(wait, ["a"], None)
        assert next(messages) == 3
        is_seen.set()
        assert tasks.Outcome("a") in list(messages)


def test_a_failed_job_counts_as_lost_workers_after_its_outcomes():
    def fail_at_b(unit):
        if unit == "b":
            raise RuntimeError("ExecutorLostFailure: exit code 137")
        return tasks.Outcome(unit)

    with _open() as (_, run):
        messages = run(fail_at_b, ["a", "b"], None)
        with pytest.raises(ChildProcessError, match="exit code 137"):
            for message in messages:
                assert message == tasks.Outcome("a") or isinstance(message, int)


@pytest.mark.parametrize("runner, master", [("spark", None), ("spark://host:7077", "spark://host:7077")])
def test_the_master_comes_from_the_runner_or_from_spark_submit(monkeypatch, runner, master):
    made = []
    monkeypatch.setattr(Context, "__init__", lambda self, conf: made.append(conf))
    with _open(runner):
        assert made[0].get("spark.master") == master
