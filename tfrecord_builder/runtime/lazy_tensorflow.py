"""TensorFlow, imported at first use, so that `build --help` does not wait two seconds for it.

from tfrecord_builder.runtime import lazy_tensorflow as tf
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from types import ModuleType

from tfrecord_builder import errors as _errors  # tf.errors is TensorFlow's
from tfrecord_builder.runtime import cpu, interrupts, tensorflow_release

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_ERRORS_ONLY = "3"  # they still come as exceptions


def __getattr__(name: str) -> object:
    return getattr(load(), name)


@functools.cache
def load() -> ModuleType:
    """Imports TensorFlow, without the log lines that it writes before its log level counts.

    They are written if the import fails, or if TF_CPP_MIN_LOG_LEVEL asks for more than errors.

    Raises:
        errors.UserError: the CPU lacks AVX, or TensorFlow cannot be imported, or is a release that
            tensorflow_release does not list.
    """
    _require_avx()
    is_quiet = os.environ.setdefault(_LOG_LEVEL, _ERRORS_ONLY) == _ERRORS_ONLY
    try:
        quietly = without_standard_error() if is_quiet else contextlib.nullcontext()
        with quietly, _without_keras(), _without_garbage_collection():
            import tensorflow
    except ImportError as error:
        raise _errors.UserError(
            f"tensorflow: cannot be imported ({error}), expected an installed one; "
            "run python -m estimator_asr.doctor"
        ) from error
    tensorflow_release.require(tensorflow.__version__)
    return tensorflow


def load_or_exit(module_name: str = "") -> None:
    """Calls load, for a program that then imports TensorFlow; ends it with one sentence on an error."""
    interrupts.exit_at_once(module_name)
    try:
        load()
    except _errors.UserError as error:
        sys.exit(f"error: {error}")


def _require_avx() -> None:
    """Refuses a CPU on which TensorFlow's wheels for x86 abort while they are imported."""
    flags = cpu.read_flags()
    if "sse2" in flags and "avx" not in flags:
        raise _errors.UserError(
            "tensorflow: this CPU has no AVX, expected one that has; use another machine, or let the virtual "
            "machine see the CPU of its host (QEMU: -cpu host)"
        )


@contextlib.contextmanager
def _without_keras() -> Iterator[None]:
    """Keeps TensorFlow from importing all of Keras at once, which takes a second; `tf.keras` still does."""
    is_set = "TF_USE_LEGACY_KERAS" in os.environ
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # the wheel tf_keras, which only the tests install
    try:
        yield
    finally:
        if not is_set:
            del os.environ["TF_USE_LEGACY_KERAS"]


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Keeps Python from searching TensorFlow's modules for garbage, which takes a third of a second.

    It does not search them later either: they stay as long as the process.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def without_standard_error() -> Iterator[None]:
    """Holds back what is written to file descriptor 2, by C++ too, unless the block fails."""
    try:
        standard_error = os.dup(2)
    except OSError:  # closed
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(standard_error, held.read())
            raise
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
