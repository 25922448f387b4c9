"""The Ray engine with a fake ray module, which runs units in this process."""

import sys
import types

import pytest

from tfrecord_builder.building.engines import failures, ray_engine, tasks


class RayError(Exception):
    pass


class WorkerCrashedError(RayError):
    pass


class OutOfMemoryError(RayError):
    pass


class Ray(types.SimpleNamespace):
    """A fake ray module that runs one call in this process per call of wait()."""

    exceptions = types.SimpleNamespace(
        RayError=RayError, WorkerCrashedError=WorkerCrashedError, OutOfMemoryError=OutOfMemoryError
    )

    def __init__(self):
        super().__init__(told=[])

    def init(self, **options):
        self.told.append(options)

    def shutdown(self):
        self.told.append("shutdown")

    def cluster_resources(self):
        return {"CPU": 4.0}

    def put(self, value):
        return value

    def remote(self, max_retries):
        assert max_retries == 3
        return lambda call: types.SimpleNamespace(remote=lambda *arguments: (call, arguments))

    def wait(self, waiting, timeout):
        return waiting[:1], waiting[1:]

    def get(self, reference):
        call, arguments = reference
        return call(*arguments)


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", stand_in := Ray())
    return stand_in


def test_outcomes_arrive_when_units_end(ray):
    with ray_engine.open_engine("ray", None) as (address, run):
        messages = list(run(lambda unit: tasks.Outcome(unit), ["a", "b"], None))
    assert messages == [tasks.Outcome("a"), 4, tasks.Outcome("b"), 4]
    assert (address, ray.told) == ("ray", [{"address": "auto"}, "shutdown"])


def test_the_client_is_given_only_the_address(ray):
    with ray_engine.open_engine("ray://host:10001", None) as (address, _):
        assert (address, ray.told) == ("ray://host:10001", [{"address": "ray://host:10001"}])


@pytest.mark.parametrize(
    "lost, raised",
    [
        (RayError("gone"), ChildProcessError),
        (WorkerCrashedError("gone"), failures.WorkerKilledError),
        (OutOfMemoryError("gone"), failures.WorkerKilledError),
    ],
)
def test_lost_workers_are_reported_after_the_other_units_have_ended(ray, lost, raised):
    def run_unit(unit):
        if unit == "a":
            raise lost
        return tasks.Outcome(unit)

    ended = []
    with ray_engine.open_engine("ray", None) as (_, run):
        with pytest.raises(ChildProcessError, match="gone") as caught:
            ended.extend(each for each in run(run_unit, ["a", "b"], None) if isinstance(each, tasks.Outcome))
    assert type(caught.value) is raised
    assert ended == [tasks.Outcome("b")]
