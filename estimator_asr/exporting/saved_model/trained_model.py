"""Opens a model directory with its selected (best on dev) checkpoint, and builds recognisers for it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Optional

import tensorflow as tf

from estimator_asr.decoding.search import decoders
from estimator_asr.experiment import checkpoints, model_directory, task_spec
from estimator_asr.exporting.saved_model import (
    cascade,
    marking,
    proposals,
    recogniser,
    stream_client,
    streams,
)
from estimator_asr.models.tasks import tasks
from estimator_asr.training.checkpointing import best_checkpoints
from tfrecord_builder import errors
from tfrecord_builder.storage import locks


class TrainedModel(NamedTuple):
    """A model and its checkpoint's path prefix; `lock` keeps training runs from deleting the checkpoint."""

    model: model_directory.ModelDirectory
    checkpoint: str
    lock: locks.ReadLock

    def with_chunks(self, chunk_frames: Optional[int]) -> TrainedModel:
        """Returns the model with chunks of `chunk_frames` frames; None and 0 keep the trained chunk size.

        Raises errors.UserError if the model does not stream, or it does not support chunks of this size.
        """
        config, decoding = self.model.config, self.model.decode.decoding
        if not config.acoustic.chunk_frames:
            raise errors.UserError(
                f"{self.model.path}: the model does not stream; train an acoustic model with "
                "--chunk_frames=32 in another model directory"
            )
        if not streams.can_stream(self.model):
            raise errors.UserError(
                f"{self.model.path}: decoding is {decoding}, but streams need beam search; pass "
                "--decoding=beam"
            )
        chunk_frames = chunk_frames or config.acoustic.chunk_frames
        acoustic = dataclasses.replace(config.acoustic, chunk_frames=chunk_frames)
        config = dataclasses.replace(config, acoustic=acoustic)
        return self._replace(model=dataclasses.replace(self.model, config=config))

    @property
    def global_step(self) -> int:
        """Training steps of the checkpoint."""
        return checkpoints.global_step(self.checkpoint)


def open_trained_model(
    path: str, decoding: Optional[str] = None, want: Optional[task_spec.TaskSpec] = None
) -> TrainedModel:
    """Opens a model directory with its best checkpoint, or with its latest checkpoint if best/ is empty.

    If set, `decoding` replaces the directory's own decoder, and `want` is the expected kind of model.

    Raises errors.UserError if there is no model or checkpoint, the model is not of the kind `want`, or the
    checkpoint belongs to another vocabulary.
    """
    model = model_directory.open_model_directory(path)
    if decoding is not None:
        model = dataclasses.replace(model, decode=dataclasses.replace(model.decode, decoding=decoding))
    if model.decode.decoding not in decoders.DECODERS:
        source = "--decoding" if decoding is not None else f"{path}/decoding.json: decoding"
        raise errors.UserError(
            f"{source} is {model.decode.decoding}, expected one of {', '.join(decoders.DECODERS)}"
        )
    checkpoint, lock = _lock_checkpoint(path)
    checkpoints.check(checkpoint, model)
    got = model.config.spec
    if want not in (None, got):
        raise errors.UserError(
            f"{path} contains the {got.name} model instead of the {want.name} model; pass another "
            f"--{want.name}_model_dir"
        )
    return TrainedModel(model, checkpoint, lock)


def _lock_checkpoint(path: str) -> tuple[str, locks.ReadLock]:
    missing = None
    while True:  # retries if a training run deletes the checkpoint in the meantime
        best = best_checkpoints.read_best(path)
        checkpoint = best_checkpoints.prefix(path, best[0].step) if best else checkpoints.latest(path)
        try:
            return checkpoint, locks.ReadLock(f"{checkpoint}.index")
        except FileNotFoundError as error:
            if checkpoint == missing:
                raise checkpoints.DamagedError(checkpoint, "its .index file is missing") from error
            missing = checkpoint


def build_recogniser(
    trained: TrainedModel, language: Optional[TrainedModel] = None, punctuation: Optional[TrainedModel] = None
) -> recogniser.Recogniser:
    """Builds and restores one model, or the cascade of an acoustic and a language model, as in an export.

    The recogniser reads the features in records (TaskSpec.features); its outputs are those of
    cascade.recognise or cascade.transcribe and, with a punctuation model, those of marking.punctuate.
    """
    (model,) = _build(trained, language, punctuation=punctuation)
    return model


def build_streams(
    trained: TrainedModel, language: Optional[TrainedModel] = None
) -> tuple[recogniser.Recogniser, stream_client.StreamClient]:
    """Builds the same recogniser as build_recogniser, and a client that streams features in its session."""
    model, starts, pieces = _build(trained, language, (streams.START, streams.FEATURES))
    return model, stream_client.StreamClient(starts, pieces)


def _build(trained, language, signatures=(), punctuation=None) -> list[recogniser.Recogniser]:
    """Builds the recogniser and the named streaming signatures, which share a session."""
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        features = tasks.for_model(trained.model).placeholders()
        if language is None and punctuation is None:
            outputs = cascade.recognise(trained.model, features)
        else:
            outputs = _transcribe(features, *(one and one.model for one in (trained, language, punctuation)))
        by_name = streams.build(trained.model, language and language.model) if signatures else {}
        # tables_initializer modifies operations in the graph, so it must precede the session's first run.
        initialize_tables = tf.compat.v1.tables_initializer()
        for source in filter(None, (trained, language, punctuation)):
            cascade.restore(session, source.model, source.checkpoint)
        session.run(initialize_tables)
    pairs = [(features, outputs), *(by_name[name] for name in signatures)]
    return [recogniser.Recogniser(session, *pair) for pair in pairs]


def _transcribe(features, acoustic, language, punctuation) -> dict[str, tf.Tensor]:
    hypotheses = proposals.find_hypotheses(acoustic, language, **features)
    return marking.punctuate(punctuation, cascade.write(acoustic, language, *hypotheses))
