"""TensorFlow by another name, loaded when something of it is first used: that takes two seconds.

from tfrecord_builder import lazy_tensorflow as tf
"""

from __future__ import annotations

import functools
import gc


def __getattr__(name: str) -> object:
    return getattr(_load(), name)


@functools.cache
def _load():
    # It makes half a million objects and frees none: looking for garbage takes a fifth of the time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        import tensorflow
    finally:
        if was_enabled:
            gc.enable()
    return tensorflow
