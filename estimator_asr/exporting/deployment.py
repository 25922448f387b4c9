"""Writes files for servers into a version's assets.extra/.

tf_serving_warmup_requests   requests that TensorFlow Serving runs before it reports the model as ready
batching_parameters.txt      settings for TensorFlow Serving's --batching_parameters_file flag
client.py                    a client for the REST APIs of TensorFlow Serving and estimator_asr.serve
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import tensorflow as tf
from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files

MODEL_NAME = "asr"
WARMUP_FILE = "tf_serving_warmup_requests"  # the file name that TensorFlow Serving looks for
_SIGNATURE = "serving_default"
_WARMUP_SECONDS = (1, 5)  # length of the recording in each request
_WARMUP_PEAK = 0.01  # loud enough not to be rejected as silent
# Batches are small: all recordings are padded to the longest in the batch, up to 3 minutes (docs/export.md).
_BATCHING = """max_batch_size { value: 4 }
batch_timeout_micros { value: 10000 }
max_enqueued_batches { value: 64 }
num_batch_threads { value: 2 }
pad_variable_length_inputs: true
"""


def write(version_dir: str, sample_rate: int) -> None:
    """Writes the files; `sample_rate` is the model's sample rate in Hz.

    If tensorflow-serving-api is not installed, logs a message instead of writing warm-up requests.
    """
    directory = os.path.join(version_dir, "assets.extra")
    os.makedirs(directory, exist_ok=True)
    try:
        requests = [_make_request(seconds, sample_rate) for seconds in _WARMUP_SECONDS]
    except ImportError as error:
        logging.info("%s", errors.library_missing(WARMUP_FILE, error, "tensorflow-serving"))
    else:
        with tf.io.TFRecordWriter(os.path.join(directory, WARMUP_FILE)) as writer:
            for request in requests:
                writer.write(request)
    with open(os.path.join(directory, "batching_parameters.txt"), "w", encoding="utf-8") as file:
        file.write(_BATCHING)
    client = os.path.join(os.path.dirname(__file__), "sample_client.py")
    shutil.copyfile(client, os.path.join(directory, "client.py"))


def _make_request(seconds: int, sample_rate: int) -> bytes:
    """Returns a serialised warm-up request that contains a WAV file with `seconds` seconds of noise."""
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    noise = np.random.default_rng(0).uniform(-_WARMUP_PEAK, _WARMUP_PEAK, seconds * sample_rate)
    wav = audio_files.encode_wav(noise, sample_rate)
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = MODEL_NAME, _SIGNATURE
    request.inputs["wav_bytes"].CopyFrom(tf.make_tensor_proto([wav]))
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.CopyFrom(request)
    return log.SerializeToString()
