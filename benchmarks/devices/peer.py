"""The peer of benchmarks/devices: sherpa-onnx with the Conformer of benchmarks/streaming, in long chunks."""

import dataclasses

import numpy as np

from benchmarks.streaming import peer as streaming_peer
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory

_, _CHUNK_FRAMES = config_lib.CHUNK_FRAMES


class Recogniser:
    """sherpa-onnx's recogniser with one thread and a model of our size; each recording is a stream."""

    def __init__(self, model: model_directory.ModelDirectory, path: str):
        """Writes the peer's model into a directory."""
        config = dataclasses.replace(model.config.acoustic, chunk_frames=_CHUNK_FRAMES)
        features = model.config.frontend
        self._recogniser = streaming_peer.Recogniser(config, features, model.tokens.size, path)
        # The model accepts only whole chunks, so silence fills the last chunk.
        self._silence = np.zeros(_CHUNK_FRAMES * features.hop_samples, np.float32)

    def recognise(self, waveform: np.ndarray) -> str:
        """Returns the text of the greedy path for a waveform, float32 [num_samples]."""
        self._recogniser.restart()
        self._recogniser.hear(np.concatenate([waveform, self._silence]))
        return self._recogniser.text()
