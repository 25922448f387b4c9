"""The task that workers run for each unit, whichever engine starts the workers."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import pickle
import platform
from collections.abc import Callable, Sequence

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.building import resumable
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

OnProgress = Callable[[str, float, int], None]  # (the unit's file, utterances done, utterances rejected)
_LIBRARIES = ("numpy", "pypinyin", "rjieba", "sentencepiece", "soundfile", "soxr", "tensorflow", "wetext")
_PACKAGES = ("tfrecord_builder", "estimator_asr")
_STORE_VARIABLES = ("AWS_", "S3_", "GOOGLE_APPLICATION_CREDENTIALS", "HADOOP_")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a unit: its utterance counts and notes, or a problem that ends the run."""

    file: str = ""
    num_done: int = 0
    num_rejected: int = 0
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class WorkerTask:
    """A function that runs pickled units on a worker.

    Attributes:
        versions: the result of list_versions on the machine that made the task; a worker compares its own
            versions with this result before it unpickles anything.
        pickled: the writer, the shared paths, the working directory of the command, and the environment
            variables for object stores, including credentials.
    """

    versions: dict[str, str]
    pickled: bytes = dataclasses.field(repr=False)  # engines log a task's repr; these bytes hold credentials

    def __call__(self, unit: bytes, on_progress: OnProgress = lambda *_: None) -> Outcome:
        try:
            return self._run(unit, on_progress)
        except errors.UserError as error:
            return Outcome(problem=str(error))
        except MemoryError:
            return Outcome(problem=_on_worker("memory ran out; run fewer workers per machine."))
        except Exception as error:
            logging.exception("%s", error)
            return Outcome(
                problem=_on_worker(f"{error!r} is a bug; report it with the traceback in the worker's log.")
            )

    def _run(self, unit: bytes, on_progress: OnProgress) -> Outcome:
        for name, version in list_versions(tuple(self.versions)).items():
            if version != self.versions.get(name):
                expected = f"expected {self.versions.get(name)} as on the machine that started the command"
                advice = "install that version on the worker."
                raise errors.UserError(_on_worker(f"{name} is {version}, {expected}; {advice}"))
        writer, shared, directory, environment = pickle.loads(self.pickled)
        os.environ.update(environment)
        with contextlib.suppress(OSError):  # the directory matters only for relative paths
            os.chdir(directory)
        for path in shared:
            if not files.exists(path):
                advice = "mount it on the worker under the same name, or use an object store such as s3://."
                raise errors.UserError(_on_worker(f"{path} does not exist; {advice}"))
        shard = pickle.loads(unit)
        receipt = writer.find_finished(shard)  # an engine may run a unit twice
        return describe(receipt or writer.write(shard, functools.partial(on_progress, shard.file)))


def make(writer: resumable.UnitWriter, shared: Sequence[str]) -> WorkerTask:
    """Returns a task that runs units with `writer`; shared paths that exist here must exist on workers."""
    paths = [path for path in shared if not urls.is_remote(path) and files.exists(path)]
    environment = {name: value for name, value in os.environ.items() if name.startswith(_STORE_VARIABLES)}
    return WorkerTask(
        list_versions(writer.libraries), pickle.dumps((writer, paths, os.getcwd(), environment))
    )


def describe(receipt: resumable.ShardReceipt) -> Outcome:
    """Converts a finished unit's receipt to the unit's outcome."""
    num_rejected = len(receipt.rejected)
    num_done = receipt.num_records + num_rejected
    return Outcome(receipt.file, num_done, num_rejected, notes=tuple(receipt.notes))


@functools.lru_cache
def list_versions(others: tuple[str, ...] = ()) -> dict[str, str]:
    """Returns the versions of Python, _LIBRARIES and `others`, and a hash of this program's source."""
    versions = {"Python": platform.python_version()}
    for name in (*_LIBRARIES, *others):
        installed = (package.version for package in importlib.metadata.distributions(name=name))
        versions.setdefault(name, next(installed, "missing"))
    root = pathlib.Path(__file__).parents[3]
    paths = sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    source = b"".join(map(pathlib.Path.read_bytes, paths))
    return {**versions, "the program's source": hashlib.sha256(source).hexdigest()[:12]}


def _on_worker(problem: str) -> str:
    return f"worker {platform.node()}: {problem}"
