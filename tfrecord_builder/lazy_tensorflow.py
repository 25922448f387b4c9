"""TensorFlow, imported at first use, so that `build --help` does not wait two seconds for it.

from tfrecord_builder import lazy_tensorflow as tf
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    import tensorflow

    return getattr(tensorflow, name)
