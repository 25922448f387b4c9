"""One value of a JSON request as an input of a signature; type and shape are checked, nothing is guessed."""

from __future__ import annotations

import base64
import binascii
import json

import numpy as np
import tensorflow as tf

from estimator_asr.server import api_errors


def read(where: str, value, info, num_outer: int) -> bytes | np.ndarray:
    """Returns bytes for a string input, otherwise an array of its type.

    Args:
        where: begins the messages.
        value: of JSON.
        info: TensorInfo of the input.
        num_outer: number of axes of the input that the value lacks, as that of the batch.

    Raises:
        api_errors.ApiError: it has another type or shape.
    """
    dtype = tf.dtypes.as_dtype(info.dtype)
    if dtype == tf.string:
        return _read_string(where, value)
    array = _read_numbers(where, value, dtype.as_numpy_dtype)
    shape = [dim.size for dim in info.tensor_shape.dim][num_outer:]
    fits = array.ndim == len(shape) and all(want in (-1, got) for want, got in zip(shape, array.shape))
    if not fits:
        wanted = [None if size == -1 else size for size in shape]
        raise api_errors.refuse(f"{where}: shape is {list(array.shape)}, expected {wanted}; send that shape")
    return array


def _read_string(where: str, value) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if not isinstance(value, dict) or set(value) != {"b64"} or not isinstance(value["b64"], str):
        expected = 'expected a string, or {"b64": BASE64} for bytes'
        raise api_errors.refuse(f"{where}: is {describe(value)}, {expected}; send one of them")
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError) as error:
        message = f"{where}: is not valid base64 ({error}), expected base64; encode the bytes again"
        raise api_errors.refuse(message) from None


def _read_numbers(where: str, value, dtype) -> np.ndarray:
    _check_types(where, value, (int, float) if np.dtype(dtype).kind == "f" else (int,), np.dtype(dtype).name)
    try:
        array = np.array(value)
    except ValueError:
        message = f"{where}: lengths of its rows are different, expected equal ones; pad the shorter rows"
        raise api_errors.refuse(message) from None
    if not array.size and array.ndim:
        return array.astype(dtype)
    if array.dtype.kind == "O":  # integers of any size
        raise _not_a_number(where, max(np.ravel(array), key=abs), np.dtype(dtype).name)
    if np.dtype(dtype).kind != "f" and not _is_in_range(array, dtype):
        raise _not_a_number(where, max(array.min(), array.max(), key=abs), np.dtype(dtype).name)
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def describe(value) -> str:
    """Returns what a value of JSON is, for a message."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value if not isinstance(value, str) else value[:40])[:60]


def _not_a_number(where: str, value, name: str) -> api_errors.ApiError:
    shown = describe(value if isinstance(value, (str, dict, bool, float, type(None))) else int(value))
    return api_errors.refuse(f"{where}: a value is {shown}, expected {name}; send numbers of that type")


def _check_types(where: str, value, types: tuple[type, ...], name: str) -> None:
    """Refuses other values than numbers in lists: numpy gives each text the room of the longest one."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif type(each) not in types:  # True is a bool, not an int
            raise _not_a_number(where, each, name)


def _is_in_range(array: np.ndarray, dtype) -> bool:
    limits = np.iinfo(dtype)
    return limits.min <= array.min() and array.max() <= limits.max
