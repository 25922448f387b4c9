"""Signatures of an export without its graph, for tests of what reads requests."""

from __future__ import annotations

import tensorflow as tf

from tfrecord_builder.audio import frontend

FRONTEND = frontend.FrontendConfig()
_HOTWORDS = {"hotwords": (tf.string, [None])}
_SIGNATURES = {
    "serving_default": {"wav_bytes": (tf.string, [None])},
    "waveform": {"waveform": (tf.float32, [None, None]), "num_samples": (tf.int32, [None])},
    "features": {"fbank": (tf.float32, [None, None, 80]), "num_frames": (tf.int32, [None])},
}


def _define(inputs):
    with tf.Graph().as_default():
        tensors = {name: tf.compat.v1.placeholder(*each) for name, each in inputs.items()}
        infos = {name: tf.compat.v1.saved_model.build_tensor_info(each) for name, each in tensors.items()}
    return tf.compat.v1.saved_model.build_signature_def(infos)


DEFINITIONS = {
    **{name: _define(inputs) for name, inputs in _SIGNATURES.items()},
    **{f"{name}_hotwords": _define({**inputs, **_HOTWORDS}) for name, inputs in _SIGNATURES.items()},
}
