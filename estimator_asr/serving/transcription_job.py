"""Runs transcribe --output_dir: writes one file per recording, and the state that a later run needs."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Collection, Sequence
from typing import Optional

from estimator_asr.serving import recording_units
from estimator_asr.serving.transcripts import captions, recordings, written_text
from tfrecord_builder import errors
from tfrecord_builder.building import resumable
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files, locks

_JOBS_DIR = ".transcribe"
_ADVICE = "choose another --output_dir, or move the transcripts and remove {}"


@dataclasses.dataclass(frozen=True)
class TranscriptionJob:
    """A job that writes transcripts to a directory, in one format, from one export, with one hotword list.

    `is_plain` is True if transcripts have no marks and no written form, whatever the export.
    """

    output_dir: str
    format: str
    version_dir: str
    sha256: str  # the export's digest
    hotwords: Sequence[str]
    is_plain: bool = False

    def run(
        self,
        inputs: Sequence[recordings.RecordingFile],
        runner: str,
        num_workers: Optional[int],
        folders: Collection[str],
    ) -> int:
        """Transcribes recordings that earlier runs did not finish; returns the number of failed recordings.

        For `runner` and `num_workers`, see recording_units.recognise. Every worker must be able to access
        `folders` under the same paths.
        """
        recordings.make_output_dir(self.output_dir)
        jobs_dir = os.path.join(self.output_dir, _JOBS_DIR)
        directory = os.path.join(jobs_dir, self.format)
        files.make_directory(directory)
        busy = f"--output_dir: another transcribe process is writing to {self.output_dir}; wait until it ends"
        with locks.exclusive(jobs_dir, busy):
            lost = self._begin(directory, inputs)
            marked_by = None if self.is_plain else (self.version_dir, self.sha256)
            writer = recording_units.RecordingWriter(
                directory,
                ((self.version_dir, self.sha256),),
                functools.partial(find_model, self.hotwords),
                functools.partial(save, self.format, self.output_dir, marked_by=marked_by),
            )
            shared = {self.output_dir, self.version_dir, *folders}
            rows = recording_units.recognise(inputs, writer, "transcribe", runner, num_workers, shared, lost)
        return sum(bool(row["problem"]) for row in rows)

    def _begin(
        self, directory: str, inputs: Sequence[recordings.RecordingFile]
    ) -> set[recordings.RecordingFile]:
        """Adds the recordings to job.json, so that later runs may replace their transcripts.

        Returns the recordings that have no transcript yet. Raises UserError if the existing transcripts were
        made with another export, other hotwords or another --text, or if a file that is not from this job
        would be replaced.
        """
        path, settings = (
            os.path.join(directory, "job.json"),
            resumable.hash_json([self.sha256, self.hotwords, *(["plain"] * self.is_plain)]),
        )
        begun = self._read_begun(path, settings) if files.exists(path) else set()
        paths = recordings.plan_outputs(inputs, self.format, self.output_dir, begun)
        named = (recording for recording in inputs if recording.path != recordings.STANDARD_INPUT)
        begun.update((recordings.absolute_path(recording), recording.name) for recording in named)
        files.write_text(path, json.dumps({"settings": settings, "begun": sorted(begun)}))
        outputs = recordings.list_outputs(self.format, self.output_dir)
        return {recording for recording, path in zip(inputs, paths) if path not in outputs}

    def _read_begun(self, path: str, settings: str) -> set[tuple[str, str]]:
        try:
            job = config_json.parse(files.read_text(path))
            begun, begun_settings = {(recording, name) for recording, name in job["begun"]}, job["settings"]
        except (ValueError, LookupError, TypeError) as error:
            raise errors.UserError(f"{path} is damaged; {_ADVICE.format(os.path.dirname(path))}") from error
        if begun_settings != settings:
            raise errors.UserError(
                f"{self.output_dir} contains {self.format} transcripts made with a different export, "
                f"different hotwords or a different --text; {_ADVICE.format(os.path.dirname(path))}"
            )
        return begun


def find_model(hotwords: Sequence[str], versions: Sequence):
    """Returns a model that boosts `hotwords`, from the only loaded export (a recogniser.LoadedVersion)."""
    return versions[0].find("waveform", hotwords)


def save(
    format: str,
    output_dir: str,
    recording: recordings.RecordingFile,
    transcript: captions.Transcript,
    marked_by: Optional[tuple[str, str]] = None,
) -> dict:
    """Writes a recording's output file; returns {}, because no values are added to the recording's row.

    If `marked_by` is the version directory and sha256 of an export with a punctuation model, the written text
    is saved.
    """
    if marked_by:
        punctuate = recording_units.load_export(*marked_by).find_punctuate()
        transcript = written_text.add(transcript, punctuate)
    recordings.save(
        recordings.output_path(recording, format, output_dir), captions.render(transcript, format)
    )
    return {}
