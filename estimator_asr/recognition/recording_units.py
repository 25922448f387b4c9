"""Recognises recordings in units of work, on any engine, for transcribe and pseudo_label.

A job has a directory. There, a unit writes a file of JSON lines, one row per recording: signature (absolute
path, size and time), problem (empty unless the recording cannot be read), and what the program adds. A later
run skips recordings that have a row without a problem and the same signature. Each recording is recognised
alone, so neither the units nor the engine change a byte.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_asr.saved_model import recogniser
from estimator_asr.transcripts import captions, recordings, transcriber
from tfrecord_builder import errors
from tfrecord_builder.building import resumable
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.settings import config_json
from tfrecord_builder.storage import files

NUM_WORKERS_HELP = "processes of this machine, each with the model in memory; one if empty"
_JOB_FILE = "job.json"  # the settings, and absolute path and name of each recording that was begun
_MAX_UNITS = 1000  # an engine handles so many at little cost, and a lost worker loses a thousandth of the job

Signature = tuple  # absolute path, size in bytes and modification time of a recording


@dataclasses.dataclass(frozen=True)
class RecordingUnit:
    """Recordings for one worker, each with its signature."""

    file: str
    signed: tuple[tuple[recordings.Recording, Signature], ...]

    @property
    def num_items(self) -> int:
        return len(self.signed)


@dataclasses.dataclass(frozen=True)
class RecordingWriter(resumable.ShardWriter):
    """Recognises the recordings of units; subclasses say what is kept of a transcript.

    Attributes:
        output_dir: directory that the user has chosen; `directory` is that of the job.
        exports: (directory of the version, sha256 of the export) of each model.
        hotwords: in the form of the graph's input.
    """

    output_dir: str
    exports: tuple[tuple[str, str], ...]
    hotwords: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """Returns what changes a transcript, by the name that messages use."""
        return {"export": [sha256 for _, sha256 in self.exports], "hotwords": list(self.hotwords)}

    def find_model(self, versions: Sequence[recogniser.LoadedVersion]) -> Any:
        """Returns the model that transcriber.transcribe takes."""
        return versions[0].find("waveform", self.hotwords)

    def keep(self, recording: recordings.Recording, transcript: captions.Transcript) -> dict:
        """Saves a transcript, or returns what its row keeps of it."""
        raise NotImplementedError

    def is_kept(self, recording: recordings.Recording) -> bool:
        """Returns False if the file that keep() has saved is missing."""
        return True

    def fingerprint(self, unit: RecordingUnit) -> str:
        return resumable.hash_json([self.settings, unit.signed])

    def make(self, unit: RecordingUnit, path: str, on_progress: resumable.OnProgress) -> resumable.Written:
        """Recognises the recordings of a unit; raises UserError if a model cannot be loaded."""
        versions = [load_export(*each) for each in self.exports]
        model, sample_rate = self.find_model(versions), versions[0].info.frontend.sample_rate
        rows, rejected, notes = [], [], []
        for recording, signature in unit.signed:
            row = {"signature": signature, "problem": ""}
            try:
                transcript = transcriber.transcribe(
                    model, recording, sample_rate, warn=lambda warning: notes.append(f"warning: {warning}")
                )
                row.update(self.keep(recording, transcript))
            except errors.UserError as error:
                row["problem"] = str(error)
                rejected.append([recording.name, "", str(error), recording.path])
                notes.append(f"error: {error}")
            rows.append(row)
            on_progress(len(rows), len(rejected))
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
        return resumable.Written(unit.file, len(rows) - len(rejected), rejected=rejected, notes=notes)


@dataclasses.dataclass(frozen=True)
class TranscriptWriter(RecordingWriter):
    """Writes one file of a format per recording."""

    format: str

    def keep(self, recording: recordings.Recording, transcript: captions.Transcript) -> dict:
        recordings.save(self._path(recording), captions.render(transcript, self.format))
        return {}

    def is_kept(self, recording: recordings.Recording) -> bool:
        return files.exists(self._path(recording))

    def _path(self, recording: recordings.Recording) -> str:
        return recordings.output_path(recording, self.format, self.output_dir)


@functools.lru_cache(maxsize=2)  # pseudo_label has two teachers at most
def load_export(version_dir: str, sha256: str) -> recogniser.LoadedVersion:
    """Loads an export once per process; raises UserError if it is another one."""
    tf.get_logger().setLevel("ERROR")
    loaded = recogniser.load_version(version_dir)
    if loaded.info.sha256 != sha256:
        raise errors.UserError(
            f"{version_dir}: a worker has another export there; copy the export to all machines again"
        )
    return loaded


def read_begun(writer: RecordingWriter) -> set[tuple[str, str]]:
    """Returns absolute path and name of each recording that earlier runs of a job began.

    Raises errors.UserError if their settings were others.
    """
    path = os.path.join(writer.directory, _JOB_FILE)
    if not files.exists(path):
        return set()
    try:
        saved, begun = config_json.parse(files.read_text(path))
        changed = [name for name, value in writer.settings.items() if saved.get(name) != value]
    except (ValueError, TypeError, AttributeError):
        changed = [f"a damaged {_JOB_FILE}"]
    if changed:
        raise errors.UserError(
            f"{writer.output_dir}: an earlier run there had other settings ({', '.join(changed)}); repeat "
            "them to continue it, or choose another --output_dir"
        )
    return set(map(tuple, begun))


def recognise(
    inputs: Sequence[recordings.Recording],
    writer: RecordingWriter,
    title: str,
    runner: str,
    num_workers: Optional[int],
    shared: Collection[str],
) -> list[dict]:
    """Recognises the recordings that earlier runs of a job have not; returns the rows of all.

    Args:
        runner, num_workers, shared: as dispatch.connect takes them, but a single process if num_workers is
            None, because a GPU serves one.
    """
    begun = read_begun(writer).union((recordings.absolute_path(each), each.name) for each in inputs)
    files.make_directory(writer.directory)
    files.write_text(os.path.join(writer.directory, _JOB_FILE), json.dumps([writer.settings, sorted(begun)]))
    signed = [(each, _sign(each)) for each in inputs]
    rows = _read_rows(writer.directory, files.list_names(writer.directory))
    rows = {key: row for key, row in rows.items() if not row["problem"]}
    pending = [each for each in signed if each[1] not in rows or not writer.is_kept(each[0])]
    if pending:
        units = _divide(pending)
        if runner == dispatch.LOCAL:
            num_workers = num_workers or 1
        with dispatch.connect(runner, num_workers, tuple(shared)) as run:
            run(units, writer, title)
        rows |= _read_rows(writer.directory, [unit.file for unit in units])
    return [rows[signature] for _, signature in signed]


def _divide(pending: Sequence[tuple]) -> list[RecordingUnit]:
    """Returns units whose files no other run writes, because its workers may outlive a killed launcher."""
    size, run_name = math.ceil(len(pending) / _MAX_UNITS), uuid.uuid4().hex[:8]
    starts = range(0, len(pending), size)
    return [RecordingUnit(f"{run_name}-{i:07}.jsonl", tuple(pending[i : i + size])) for i in starts]


def _read_rows(directory: str, names: Iterable[str]) -> dict[Signature, dict]:
    """Returns the rows of unit files by signature; a row without a problem is preferred."""
    rows: dict[Signature, dict] = {}
    for name in names:
        if name.endswith(".jsonl"):
            with contextlib.suppress(ValueError, LookupError, TypeError):  # a damaged file counts as none
                for line in files.read_text(os.path.join(directory, name)).splitlines():
                    row = config_json.parse(line)
                    if tuple(row["signature"]) not in rows or not row["problem"]:
                        rows[tuple(row["signature"])] = row
    return rows


def _sign(recording: recordings.Recording) -> Signature:
    try:
        return recordings.absolute_path(recording), *files.size_and_time(recording.path)
    except OSError:  # a worker will say what is wrong
        return recordings.absolute_path(recording), 0, 0
