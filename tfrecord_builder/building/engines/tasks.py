"""What a worker does with a unit, the same on every engine.

Writers and units travel pickled, so that a worker of another version answers in a sentence before it meets a
class that it does not know.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import pathlib
import pickle
import platform
import sys
import traceback
from collections.abc import Callable, Sequence

from tfrecord_builder import errors
from tfrecord_builder.output import resumable
from tfrecord_builder.storage import files

OnProgress = Callable[[str, int, int], None]  # file of the unit, utterances done, utterances rejected
_LIBRARIES = ("numpy", "pypinyin", "rjieba", "sentencepiece", "soundfile", "soxr", "tensorflow", "wetext")
_PACKAGES = ("tfrecord_builder", "estimator_asr")
_STORE_VARIABLES = ("AWS_", "S3_", "GOOGLE_APPLICATION_CREDENTIALS", "HADOOP_")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a unit ended: the number of its utterances, or the problem (a sentence) that ends the run."""

    file: str = ""
    num_done: int = 0
    num_rejected: int = 0
    problem: str = ""
    traceback: str = ""  # only if the problem is a bug


@dataclasses.dataclass(frozen=True)
class Task:
    """A function of (pickled unit, on_progress) that runs the unit and returns its Outcome.

    Attributes:
        packages: names of the packages that units need.
        versions: see list_versions; a worker must have the same.
        pickled: the writer, the shared paths and the environment variables of stores, with credentials.
    """

    packages: tuple[str, ...]
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
            problem = _on_worker(f"{error!r} is a bug of this program; report it with the traceback above.")
            return Outcome(problem=problem, traceback=traceback.format_exc())

    def _run(self, unit: bytes, on_progress: OnProgress) -> Outcome:
        self._check_versions()
        writer, shared, environment = pickle.loads(self.pickled)
        os.environ.update(environment)
        _check_shared(shared)
        shard = pickle.loads(unit)
        receipt = writer.find_finished(shard)  # an engine may run a unit twice
        return describe(receipt or writer.write(shard, functools.partial(on_progress, shard.file)))

    def _check_versions(self) -> None:
        for name, here in list_versions(self.packages).items():
            if here != self.versions[name]:
                raise errors.UserError(
                    _on_worker(
                        f"{name} is {here}, expected {self.versions[name]} as on the machine of the command; "
                        "install the same on every worker."
                    )
                )


def make(writer: resumable.ShardWriter, shared: Sequence[str]) -> Task:
    """Returns the task of running units by a writer; workers must see those shared paths that exist here."""
    packages = tuple(name for name in _PACKAGES if name in sys.modules)
    seen = [path for path in shared if not files.is_remote(path) and files.exists(path)]
    environment = {name: value for name, value in os.environ.items() if name.startswith(_STORE_VARIABLES)}
    return Task(packages, list_versions(packages), pickle.dumps((writer, seen, environment)))


def describe(receipt: resumable.Written) -> Outcome:
    """Returns the outcome of a unit that was finished."""
    num_rejected = len(receipt.rejected)
    return Outcome(receipt.file, receipt.num_records + num_rejected, num_rejected)


@functools.lru_cache(maxsize=8)
def list_versions(packages: tuple[str, ...] = _PACKAGES[:1]) -> dict[str, str]:
    """Returns the versions of Python and of libraries, and a hash of the source of each package."""
    versions = {"Python": platform.python_version()}
    for name in _LIBRARIES:
        versions[name] = "missing"
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {**versions, **{package: _hash_source(package) for package in packages}}


def _hash_source(package: str) -> str:
    """Returns the first digits of a hash of the source files of a package."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    paths = sorted(path for folder in folders or () for path in pathlib.Path(folder).rglob("*.py"))
    return hashlib.sha256(b"".join(map(pathlib.Path.read_bytes, paths))).hexdigest()[:12]


def _check_shared(paths: Sequence[str]) -> None:
    for path in paths:
        if not files.exists(path):
            advice = "mount it there under the same name, or use a store such as s3://."
            raise errors.UserError(_on_worker(f"{path} does not exist; {advice}"))


def _on_worker(problem: str) -> str:
    return f"worker {platform.node()}: {problem}"
