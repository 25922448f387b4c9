"""Imports TensorFlow on first use, which saves programs such as `build --help` two seconds. Usage:

from tfrecord_builder.program import lazy_tensorflow as tf
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

from tfrecord_builder import errors as _errors  # `errors` would hide tf.errors
from tfrecord_builder.program import cpu, interrupts, tensorflow_release

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_ERRORS_ONLY = "3"  # hides all but fatal log lines; errors are still raised as exceptions


def __getattr__(name: str) -> object:
    return getattr(load(), name)


@functools.cache
def load() -> ModuleType:
    """Imports TensorFlow and suppresses the log lines that it writes before its log level takes effect.

    The lines are shown if the import fails, or if TF_CPP_MIN_LOG_LEVEL is set to a value other than 3. Raises
    errors.UserError if the CPU lacks AVX, or TensorFlow cannot be imported or is not of a tested release.
    """
    _require_avx()
    is_quiet = os.environ.setdefault(_LOG_LEVEL, _ERRORS_ONLY) == _ERRORS_ONLY
    try:
        quietly = without_standard_error() if is_quiet else contextlib.nullcontext()
        with quietly, _faster_import():
            import tensorflow
    except ImportError as error:
        raise _errors.UserError(
            f"TensorFlow cannot be imported ({error}); run python -m estimator_asr.doctor to find out why"
        ) from error
    tensorflow_release.require(tensorflow.__version__)
    return tensorflow


def load_or_exit(module_name: str = "") -> None:
    """Calls `load` before a program's modules import TensorFlow; on failure, prints the error and exits."""
    interrupts.exit_at_once(module_name)
    try:
        load()
    except _errors.UserError as error:
        sys.exit(f"error: {error}")


def _require_avx() -> None:
    """Raises UserError on an x86 CPU without AVX, where importing TensorFlow would abort the process."""
    flags = cpu.read_flags()
    if "sse2" in flags and "avx" not in flags:
        raise _errors.UserError(
            "TensorFlow needs AVX, which this CPU does not support; use another machine or, in a virtual "
            "machine, make the host's CPU visible (QEMU: -cpu host)"
        )


@contextlib.contextmanager
def _faster_import() -> Iterator[None]:
    """Skips Keras, which saves a second, and turns off garbage collection, which saves a third of a second.

    Using `tf.keras` imports Keras later. The objects imported in the block are excluded from garbage
    collection, because they stay until the process ends.
    """
    is_set, was_enabled = "TF_USE_LEGACY_KERAS" in os.environ, gc.isenabled()
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # selects the package tf_keras, which only tests need
    gc.disable()
    try:
        yield
    finally:
        if not is_set:
            del os.environ["TF_USE_LEGACY_KERAS"]
        if was_enabled:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def without_standard_error() -> Iterator[None]:
    """Suppresses output to file descriptor 2, even from C++ code; shows the output if the block fails."""
    try:
        standard_error = os.dup(2)
    except OSError:  # standard error is closed
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
