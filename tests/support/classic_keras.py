"""Program for test_warm_start: two small Keras models of the classic cascade, saved in both layouts.

    classic_keras.py DIRECTORY

Reads inputs.npy; writes before.h5 (model.save, batch norm before the ReLU) and after.h5 (save_weights, batch
norm after it), the logits of both for the inputs, and before.weights.h5 (save_weights again). With TensorFlow
2.21, before.h5 comes from its Keras 3, and after.h5, which that cannot write, from Keras 2 (tf_keras).
It needs a process of its own, with eager execution.
The third pooling keeps the frames, as ours does, and the batch norms after the ReLU map zero to zero, so that
all logits can be compared.
"""

from __future__ import annotations

import importlib
import os
import sys

import keras
import numpy as np
import tensorflow as tf

NUM_CLASSES = 5


def find_keras_2():
    return tf.keras if keras.__version__.startswith("2.") else importlib.import_module("tf_keras")


def convolve(layers, hidden, channels, norm_first):
    hidden = layers.Conv2D(channels, 3, padding="same", activation=None if norm_first else "relu")(hidden)
    hidden = layers.BatchNormalization()(hidden)
    return layers.ReLU()(hidden) if norm_first else hidden


def build(library, num_bins, norm_first):
    layers = library.layers
    inputs = hidden = layers.Input([None, num_bins, 1])
    for channels, strides in ((32, (2, 2)), (64, (2, 2)), (128, (1, 2))):
        for _ in range(2):
            hidden = convolve(layers, hidden, channels, norm_first)
        hidden = layers.MaxPooling2D(strides)(hidden)
    hidden = layers.Reshape([-1, num_bins // 8 * 128])(hidden)
    hidden = layers.Dense(16, activation="relu")(layers.Dropout(0.2)(hidden))
    return library.Model(inputs, layers.Dense(NUM_CLASSES)(hidden))


def fill(model, norm_first):
    """Sets biases and batch norms to values that make omissions visible."""
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if type(layer).__name__ == "BatchNormalization":
            size = layer.gamma.shape[0]
            gamma, variance = rng.uniform(0.5, 1.5, size), rng.uniform(0.5, 2, size)
            mean = rng.normal(0, 0.3, size) if norm_first else rng.uniform(0.1, 0.5, size)
            beta = rng.normal(0, 0.3, size) if norm_first else mean * gamma / np.sqrt(variance + 1e-3)
            layer.set_weights([gamma, beta, mean, variance])
        elif layer.weights:
            kernel, bias = layer.get_weights()
            layer.set_weights([kernel, rng.normal(0, 0.3, bias.shape)])


def main(directory):
    inputs = np.load(os.path.join(directory, "inputs.npy"))
    for name, library, norm_first in (("before", tf.keras, True), ("after", find_keras_2(), False)):
        model = build(library, inputs.shape[2], norm_first)
        fill(model, norm_first)
        path = os.path.join(directory, name)
        (model.save if norm_first else model.save_weights)(f"{path}.h5")
        np.save(f"{path}.npy", model(inputs[..., None], training=False).numpy())
        if norm_first:
            model.save_weights(f"{path}.weights.h5")


if __name__ == "__main__":
    main(sys.argv[1])
