"""A model directory with the checkpoint that speaks for it, and the same model ready to run."""

from __future__ import annotations

import os
from typing import NamedTuple

import tensorflow as tf

from estimator_asr import model_directory
from estimator_asr.checkpointing import checkpoints, locks
from estimator_asr.serving import cascade, recogniser, signatures
from tfrecord_builder import errors


class TrainedModel(NamedTuple):
    """A model and the prefix of the checkpoint that holds its weights, which a training that runs meanwhile
    does not delete before the lock is dropped."""

    model: model_directory.ModelDirectory
    checkpoint: str
    lock: locks.ReadLock

    @property
    def kind(self) -> str:
        """What it is: "acoustic" or "language"."""
        return self.model.config.model

    @property
    def global_step(self) -> int:
        """After how many steps of training these were the weights."""
        return checkpoints.global_step(self.checkpoint)


def open_trained_model(path: str) -> TrainedModel:
    """Open a model directory with its best checkpoint, or with the latest one if none was kept as the best.

    Raises:
      errors.UserError: there is no model or checkpoint, or the checkpoint belongs to another vocabulary.
    """
    model = model_directory.open_model_directory(path)
    checkpoint, lock = _lock_checkpoint(path)
    checkpoints.check(checkpoint, model)
    return TrainedModel(model, checkpoint, lock)


def _lock_checkpoint(path: str) -> tuple[str, locks.ReadLock]:
    try:
        return locks.lock(lambda: _best_checkpoint(path) or checkpoints.latest(path))
    except FileNotFoundError as error:
        raise checkpoints.DamagedError(
            error.filename.removesuffix(".index"), "its .index is not there"
        ) from error


def _best_checkpoint(path: str) -> str | None:
    """The weights in the SavedModel that training's best exporter keeps: lowest error rate on dev."""
    best_dir = os.path.join(path, "export", "best")
    versions = recogniser.list_versions(best_dir)
    return os.path.join(best_dir, str(versions[-1]), "variables", "variables") if versions else None


def require_kind(trained: TrainedModel, kind: str, flag_name: str) -> None:
    """Raise errors.UserError unless the model is of the kind that the flag asks for."""
    if trained.kind != kind:
        raise errors.UserError(
            f"{trained.model.path}: holds the {trained.kind} model, expected the {kind} model; "
            f"give another --{flag_name}"
        )


def build_recogniser(trained: TrainedModel) -> recogniser.Recogniser:
    """Build the model as the export does and restore it.

    Returns:
      Recogniser: acoustic from fbank and num_frames to pinyin and transcript, language from pronunciation
      (string [batch], tokens with blanks between them) to transcript.
    """
    build = {"acoustic": _build_acoustic, "language": _build_language}[trained.kind]
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        inputs, outputs = build(trained.model)
        initialize_tables = tf.compat.v1.tables_initializer()  # marks ops, so before the session runs any
        cascade.restore(session, trained.model, trained.checkpoint)
        session.run(initialize_tables)
    return recogniser.Recogniser(session, inputs, outputs)


def _build_acoustic(model: model_directory.ModelDirectory) -> tuple[dict, dict]:
    entrances = signatures.build_entrances(model.config.frontend)._asdict()
    inputs = {name: entrances[name] for name in signatures.SIGNATURE_INPUTS["features"]}
    return inputs, cascade.transcribe(model, None, **inputs)._asdict()


def _build_language(model: model_directory.ModelDirectory) -> tuple[dict, dict]:
    pronunciation = tf.compat.v1.placeholder(tf.string, [None], "pronunciation")
    tokens = tf.strings.split(pronunciation)
    num_tokens = tf.cast(tokens.row_lengths(), tf.int32)
    characters = cascade.convert(model, tokens.to_tensor(), num_tokens)
    outputs = {"transcript": cascade.join(characters, "character"), "language_score": characters.scores}
    return {"pronunciation": pronunciation}, outputs
