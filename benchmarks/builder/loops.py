"""The loops that are timed on one core: the peer's, and the minimum work of any builder."""

import functools
import os
from collections.abc import Callable, Sequence

import numpy as np
import soundfile
import tensorflow as tf

from benchmarks.builder import corpus, peer
from tfrecord_builder.audio import frontend

_CONFIG = frontend.FrontendConfig()
_FFT_LENGTH = 512  # a frame has 400 samples
_MAX_FRAMES = 3000


def build_with_kaldi_native_fbank(recordings: Sequence[corpus.SpokenFile], directory: str) -> str:
    """Builds as a user would by hand: soundfile, kaldi-native-fbank, tf.train.Example, tf.io.TFRecordWriter.

    The same features (80 bins of log-mel, dither 0, float16) and keys as ours, no checks, no statistics.

    Returns:
      The path of the TFRecord file.
    """
    path = os.path.join(directory, "peer.tfrecord")
    peer.write(path, ((each.path, _make_texts(each)) for each in recordings))
    return path


def decode_transform_write(recordings: Sequence[corpus.SpokenFile], directory: str) -> str:
    """Does the work that no builder can avoid: decoding, an FFT per frame, writing as many bytes.

    The frames are prepared before, the spectra are discarded, and zeros are written.

    Returns:
      The path of the file.
    """
    path = os.path.join(directory, "bound")
    transform = _build_fft()
    zeros = bytes(_MAX_FRAMES * 80 * 2)
    with open(path, "wb") as file:
        for recording in recordings:
            samples, _ = soundfile.read(recording.path, dtype="float32")
            num_frames = frontend.num_frames(len(samples), _CONFIG)
            transform(num_frames)
            file.write(zeros[: num_frames * 80 * 2])
    return path


def _make_texts(recording: corpus.SpokenFile) -> dict[str, str]:
    return {
        "utterance_id": os.path.basename(recording.path),
        "speaker": "",
        "transcript": "".join(recording.tokens),
        "pronunciation": " ".join(recording.tokens),
    }


@functools.lru_cache(maxsize=1)
def _build_fft() -> Callable[[int], np.ndarray]:
    """Builds a function that computes the frontend's FFT of prepared frames, given the number of frames."""
    with tf.Graph().as_default() as graph:
        noise = np.random.RandomState(1).standard_normal([_MAX_FRAMES, _FFT_LENGTH]).astype(np.float32)
        frames = tf.compat.v1.get_variable("frames", initializer=noise, use_resource=False)
        num_frames = tf.compat.v1.placeholder(tf.int32, [])
        spectrum = tf.signal.rfft(frames[:num_frames])
        last = tf.math.real(spectrum[-1, -1])
        initialize = tf.compat.v1.global_variables_initializer()
    options = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    session = tf.compat.v1.Session(graph=graph, config=options)
    session.run(initialize)
    return session.make_callable(last, [num_frames])
