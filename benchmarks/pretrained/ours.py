"""Our side of benchmarks/pretrained.py: the training steps on Whisper's encoder, and `encode`."""

from typing import Optional

import numpy as np

from benchmarks.train_step import ours as train_step_ours
from benchmarks.train_step import work as train_step_work
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory
from estimator_asr.models import frozen_encoder
from estimator_asr.pretrained import encoder_weights, shard_encoder
from tfrecord_builder.audio import frontend, pretrained_encoder
from tfrecord_builder.data import schema

_SCOPE = f"acoustic/encoder/{frozen_encoder.LOWER_SCOPE}"


def read_applied(weights_dir: str) -> pretrained_encoder.Applied:
    """Returns the encoder of a directory and the blocks that are read of it by default."""
    encoder, _ = encoder_weights.read(weights_dir)
    return pretrained_encoder.Applied(encoder, pretrained_encoder.choose_layers(encoder.layers))


def make_model(
    config: config_lib.AcousticConfig,
    applied: pretrained_encoder.Applied,
    reads_outputs: bool,
    num_tokens: int,
    path: str,
) -> model_directory.ModelDirectory:
    """Returns a model that reads outputs of the encoder, or log-mel and has the encoder in its graph."""
    stored = applied if reads_outputs else None
    features = frontend.FrontendConfig(frontend="whisper_log_mel", encoder=stored)
    return train_step_ours.make_model(config, num_tokens, path, features)


def open_step(
    model: model_directory.ModelDirectory, batch: train_step_work.Batch, weights_dir: Optional[str] = None
) -> train_step_ours.Session:
    """Returns the training step; with weights_dir, that of the encoder in its graph."""
    opened = train_step_ours.open_session(model, batch)
    if weights_dir:
        encoder, tensors = encoder_weights.read(weights_dir)
        values = encoder_weights.to_variables(encoder, tensors)
        opened.load({f"{_SCOPE}/{name}": value for name, value in values.items()})
    return opened


class Encoder:
    """`encode` of one batch of records, by one thread."""

    def __init__(
        self, weights_dir: str, applied: pretrained_encoder.Applied, batch: train_step_work.Batch
    ) -> None:
        self._encode = shard_encoder.open_encoder(weights_dir, applied, "float32")
        self._records = [
            schema.make_example(schema.Record("", "", "", "", (), (), fbank[:count]))
            for fbank, count in zip(batch.fbank, batch.num_frames)
        ]

    def encode(self) -> list[np.ndarray]:
        """Returns the outputs of each utterance, float16 [num_subsampled, num_bins]."""
        return self._encode(self._records)
