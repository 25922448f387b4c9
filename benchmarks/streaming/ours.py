"""Our side of benchmarks/streaming: the signature `stream`, and the whole utterance with the same weights."""

import dataclasses
import os

import numpy as np
import tensorflow as tf

from benchmarks.train_step import ours as train_step_ours
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory
from estimator_asr.exporting.saved_model import cascade, recogniser, stream_client, streams
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import dataset_info

_NUM_TOKENS = 1675  # vocabulary size of three small corpora, see docs/experiments/from-scratch.md


def make_model(path: str) -> model_directory.ModelDirectory:
    """Returns the model of flags/streaming/acoustic.flags; writes its vocabulary into a directory."""
    config = config_lib.AcousticConfig(encoder_layers=4, encoder_units=192, chunk_frames=32)
    model = train_step_ours.make_model(config, _NUM_TOKENS, path)
    model.tokens.save(os.path.join(path, dataset_info.TOKENS_FILE))
    settings = dataclasses.replace(model.config, token_type="character")  # characters are joined into texts
    return dataclasses.replace(model, config=settings)


class Streams:
    """A session like the server's, with streams that all get the same noise, piece by piece."""

    def __init__(self, model: model_directory.ModelDirectory, waveform: np.ndarray, count: int):
        """Takes float32 [num_samples], and the number of streams."""
        with tf.Graph().as_default() as graph:
            tf.compat.v1.set_random_seed(1)
            whole, built = _build_whole(model), streams.build(model, None)
            initialise = [tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()]
        session = recogniser.open_session(graph)
        session.run(initialise)
        ours = (recogniser.Recogniser(session, *built[name]) for name in (streams.START, streams.STREAM))
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
    num_frames = frontend.num_frames(num_samples, model.config.frontend)
    fbank = frontend.extract(samples, model.config.frontend, num_samples)
    outputs = cascade.transcribe(model, None, fbank, num_frames)
    return {"waveform": samples, "num_samples": num_samples}, outputs
