"""What a worker does with a unit, the same on every engine."""

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
from tfrecord_builder.storage import files

OnProgress = Callable[[str, float, int], None]  # file of the unit, utterances done, utterances rejected
_LIBRARIES = ("numpy", "pypinyin", "rjieba", "sentencepiece", "soundfile", "soxr", "tensorflow", "wetext")
_PACKAGES = ("tfrecord_builder", "estimator_asr")
_STORE_VARIABLES = ("AWS_", "S3_", "GOOGLE_APPLICATION_CREDENTIALS", "HADOOP_")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The end of a unit: the numbers of its utterances and its notes, or the problem that ends the run."""

    file: str = ""
    num_done: int = 0
    num_rejected: int = 0
    problem: str = ""
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Task:
    """Runs pickled units.

    Attributes:
        versions: see list_versions; a worker must have the same before it unpickles anything.
        pickled: the writer, the shared paths, the working directory of the command, and the environment
            variables of stores, with credentials.
    """

    versions: dict[str, str]
    pickled: bytes = dataclasses.field(repr=False)  # engines log what they run

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
                problem=_on_worker(f"{error!r} is a bug; report it with the traceback in its log.")
            )

    def _run(self, unit: bytes, on_progress: OnProgress) -> Outcome:
        for name, here in list_versions(tuple(self.versions)).items():
            if here != self.versions.get(name):
                advice = f"expected {self.versions.get(name)} as where the command was started"
                raise errors.UserError(_on_worker(f"{name} is {here}, {advice}; install the same there."))
        writer, shared, directory, environment = pickle.loads(self.pickled)
        os.environ.update(environment)
        with contextlib.suppress(OSError):  # a worker needs it for relative paths alone
            os.chdir(directory)
        for path in shared:
            if not files.exists(path):
                advice = "mount it there under the same name, or use a store such as s3://."
                raise errors.UserError(_on_worker(f"{path} does not exist; {advice}"))
        shard = pickle.loads(unit)
        receipt = writer.find_finished(shard)  # an engine may run a unit twice
        return describe(receipt or writer.write(shard, functools.partial(on_progress, shard.file)))


def make(writer: resumable.ShardWriter, shared: Sequence[str]) -> Task:
    """Returns the task of running units by a writer; workers must see those shared paths that exist here."""
    seen = [path for path in shared if not files.is_remote(path) and files.exists(path)]
    environment = {name: value for name, value in os.environ.items() if name.startswith(_STORE_VARIABLES)}
    return Task(list_versions(writer.libraries), pickle.dumps((writer, seen, os.getcwd(), environment)))


def describe(receipt: resumable.Written) -> Outcome:
    """Returns the outcome of a unit that was finished."""
    num_rejected = len(receipt.rejected)
    num_done = receipt.num_records + num_rejected
    return Outcome(receipt.file, num_done, num_rejected, notes=tuple(receipt.notes))


@functools.lru_cache
def list_versions(others: tuple[str, ...] = ()) -> dict[str, str]:
    """Returns the versions of Python, _LIBRARIES and others, and a hash of the source of this program."""
    found = {"Python": platform.python_version()}
    for name in (*_LIBRARIES, *others):
        versions = (package.version for package in importlib.metadata.distributions(name=name))
        found.setdefault(name, next(versions, "missing"))
    root = pathlib.Path(__file__).parents[3]
    paths = sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    source = b"".join(map(pathlib.Path.read_bytes, paths))
    return {**found, "the program's source": hashlib.sha256(source).hexdigest()[:12]}


def _on_worker(problem: str) -> str:
    return f"worker {platform.node()}: {problem}"
