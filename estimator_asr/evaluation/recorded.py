"""Recognises the recordings in a split with an export's LiteRT or ONNX model, for evaluate --format."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from estimator_asr.evaluation import recognised_split
from estimator_asr.exporting.saved_model import export_info
from estimator_asr.inputs import splits
from estimator_asr_runtime import errors as runtime_errors
from estimator_asr_runtime import model as runtime_model
from estimator_asr_runtime import model_json
from estimator_asr_runtime import recogniser as runtime
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.data import recordings

FORMATS = model_json.FORMATS


@dataclasses.dataclass(frozen=True)
class RecordedRecogniser:
    """Replaces recogniser.Recogniser; recognises the recordings of a batch's utterances one by one."""

    model: runtime.Recogniser
    by_id: Mapping[str, recordings.Recording]
    info: export_info.ExportInfo
    session: tf.compat.v1.Session  # the replaced SavedModel's session, which the caller closes

    def run(self, batch: Mapping[str, np.ndarray]) -> dict[str, list]:
        """Returns lists of the outputs of estimator_asr_runtime.recogniser.Recogniser.recognise.

        Raises errors.UserError if a recording is missing or cannot be read.
        """
        try:
            rows = [self.model.recognise(self._read(name.decode("utf-8"))) for name in batch["utterance_id"]]
        except runtime_errors.UserError as error:
            raise errors.UserError(f"evaluate: {error}") from error
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _read(self, utterance_id: str) -> np.ndarray:
        recording = self.by_id.get(utterance_id)
        reason = (
            "the data do not list its file" if recording is None else "the utterance is an augmented copy"
        )
        if recording is not None and not recording.is_augmented:
            segment = (recording.start_seconds, recording.seconds, recording.channel)
            limit, rate = self.info.max_seconds, self.info.frontend.sample_rate
            try:
                return audio_files.read_audio(recording.path, rate, limit, *segment)
            except (audio_files.AudioError, OSError) as error:
                reason = str(error)
        raise errors.UserError(
            f"evaluate: {utterance_id}: --format needs the recording, which cannot be read ({reason}); move "
            "the corpus back to its original location, or omit --format"
        )


def replace_recogniser(
    subject: recognised_split.EvaluatedModel, source: splits.Split, version_dir: str, name: str
) -> recognised_split.EvaluatedModel:
    """Returns `subject` with the model in VERSION/name (litert or onnx) in place of the SavedModel.

    Raises errors.UserError if the export does not contain the format, or the format's files are damaged.
    """
    directory = os.path.join(version_dir, name)
    if not os.path.isdir(directory):
        raise errors.UserError(f"evaluate: {directory} does not exist; export the model with --format={name}")
    try:
        model = runtime.Recogniser(runtime_model.load(directory), subject.hotwords)
    except runtime_errors.UserError as error:
        raise errors.UserError(f"evaluate: {error}") from error
    by_id = recordings.read_all(shard.path for shard in source.shards)
    info, session = export_info.load(version_dir), subject.recogniser.session
    recorded = RecordedRecogniser(model, by_id, info, session)
    return subject._replace(recogniser=recorded, facts={**subject.facts, "model": directory})
