"""Our side of benchmarks/streaming: the signature `stream`, and the whole utterance by the same weights."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from benchmarks.train_step import ours as train_step_ours
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory
from estimator_asr.saved_model import recogniser, stream_client, streams
from estimator_asr.tasks import registry
from tfrecord_builder.audio import frontend

_NUM_TOKENS = 1675  # of three small corpora, see docs/results.md


def make_model() -> model_directory.ModelDirectory:
    """Returns the model of flags/streaming/acoustic.flags, whose directory does not exist."""
    config = config_lib.AcousticConfig(encoder_layers=4, encoder_units=192, chunk_frames=32)
    return train_step_ours.make_model(config, _NUM_TOKENS, "")


class Streams:
    """A session with streams that hear the same noise: `hear` is one chunk of each."""

    def __init__(self, model: model_directory.ModelDirectory, waveform: np.ndarray, count: int, threads: int):
        """Takes float32 [num_samples], the number of streams, and of threads."""
        with tf.Graph().as_default() as graph:
            tf.compat.v1.set_random_seed(1)
            whole = _build_whole(model)
            built = {name: streams.build(model, None)[name] for name in (streams.START, streams.STREAM)}
            initialise = tf.compat.v1.global_variables_initializer()
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
        )
        session = tf.compat.v1.Session(graph=graph, config=config)
        session.run(initialise)
        ours = (recogniser.Recogniser(session, *built[name]) for name in built)
        self._client, self._count = stream_client.StreamClient(*ours), count
        self._whole, self._waveform = recogniser.Recogniser(session, *whole), waveform
        self._state = self._client.start(count)

    def restart(self) -> None:
        self._state = self._client.start(self._count)

    def hear(self, samples: np.ndarray) -> None:
        """Hears a piece, float32 [num_samples], in each stream."""
        piece = {
            "waveform": np.tile(samples, [self._count, 1]),
            "num_samples": np.full(self._count, samples.size, np.int32),
            "is_last": np.zeros(self._count, bool),
        }
        _, self._state = self._client.feed(self._state, piece)

    def hear_whole(self) -> None:
        """Recognises the waveform at once."""
        count = np.array([self._waveform.size], np.int32)
        self._whole.fetch({"waveform": self._waveform[None], "num_samples": count})


def _build_whole(model):
    samples = tf.compat.v1.placeholder(tf.float32, [None, None])
    num_samples = tf.compat.v1.placeholder(tf.int32, [None])
    config = model.config.frontend
    fbank, num_frames = (
        frontend.extract(samples, config, num_samples),
        frontend.num_frames(num_samples, config),
    )
    found = registry.of(model).recognise({"fbank": fbank, "num_frames": num_frames})
    return {"waveform": samples, "num_samples": num_samples}, {"ids": found.ids}
