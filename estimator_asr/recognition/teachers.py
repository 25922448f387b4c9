"""Units of pseudo_label: recordings as one or two teachers recognise them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from estimator_asr.recognition import recording_units
from estimator_asr.saved_model import recogniser
from estimator_asr.transcripts import captions, pseudo_labels, recordings
from tfrecord_builder import errors


@dataclasses.dataclass(frozen=True)
class TeacherWriter(recording_units.RecordingWriter):
    """Keeps the utterances of recordings (pseudo_labels.list_rows)."""

    audio_dir: str

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "audio_dir": self.audio_dir}

    def find_model(self, versions: Sequence[recogniser.LoadedVersion]) -> pseudo_labels.Teachers:
        teachers = pseudo_labels.Teachers([version.find("waveform") for version in versions])
        for version, model in zip(versions, teachers.models):
            if pseudo_labels.GREEDY not in model.outputs:
                problem = f"output {pseudo_labels.GREEDY} is missing, expected an export of this version"
                raise errors.UserError(f"{version.version_dir}: {problem}; export the model again")
        return teachers

    def keep(self, recording: recordings.Recording, transcript: captions.Transcript) -> dict:
        return {"rows": pseudo_labels.list_rows(transcript.segments)}
