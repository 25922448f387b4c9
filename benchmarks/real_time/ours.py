"""Our side of benchmarks/real_time.py: the graph that is exported, run up to each of its parts."""

import numpy as np
import tensorflow as tf

from benchmarks.train_step import ours as train_step_ours
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory
from estimator_asr.models.tasks import tasks
from tfrecord_builder.audio import frontend

_NUM_TOKENS = 1300


def make_model() -> model_directory.ModelDirectory:
    """Returns the model of flags/aishell1/acoustic.flags, whose directory does not exist."""
    config = config_lib.AcousticConfig(
        encoder_layers=12,
        encoder_inner_units=1024,
        fill_bands=False,  # the lowest bins of noise are empty
    )
    return train_step_ours.make_model(config, _NUM_TOKENS, "")


class Recogniser:
    """A session; each method runs the graph from the samples to the end of its part."""

    def __init__(self, model: model_directory.ModelDirectory, waveform: np.ndarray):
        self.seconds = waveform.size / model.config.frontend.sample_rate
        with tf.Graph().as_default() as graph:
            tf.compat.v1.set_random_seed(1)
            samples = tf.compat.v1.placeholder(tf.float32, [None, None])
            num_samples = tf.compat.v1.placeholder(tf.int32, [None])
            fbank = frontend.extract(samples, model.config.frontend, num_samples)
            num_frames = frontend.num_frames(num_samples, model.config.frontend)
            found = tasks.for_model(model).recognise({"fbank": fbank, "num_frames": num_frames})
            self._variables = tf.compat.v1.global_variables()
            initialise = tf.compat.v1.global_variables_initializer()
        self._session = tf.compat.v1.Session(graph=graph)
        self._session.run(initialise)
        self._feeds = {samples: waveform[None], num_samples: [waveform.size]}
        self._fetches = {"frontend": fbank, "encoder": found.log_probs, "decoding": found.n_best}

    def weights(self) -> dict[str, np.ndarray]:
        """Returns the variables by name."""
        return {
            each.op.name: value for each, value in zip(self._variables, self._session.run(self._variables))
        }

    def frontend(self) -> np.ndarray:
        """Returns log-mel, float32 [1, num_frames, num_bins]."""
        return self._session.run(self._fetches["frontend"], self._feeds)

    def encoder(self) -> np.ndarray:
        """Returns the log probabilities of CTC, float32 [1, num_subsampled, num_classes]."""
        return self._session.run(self._fetches["encoder"], self._feeds)

    def decoding(self):
        """Returns the n best hypotheses."""
        return self._session.run(self._fetches["decoding"], self._feeds)
