"""Graphs that run by ONNX Runtime or LiteRT, which are imported when a model of their format is loaded."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import errors

_AGAIN = "copy the export again, or export again"
_GROUP_ROWS = 4


class OnnxGraph:
    """A graph of ONNX Runtime on the CPU."""

    def __init__(self, path: str, num_threads: int):
        """Loads a graph; num_threads (intra_op_num_threads) 0: one for each core.

        Raises errors.UserError if the library is missing or cannot load the file.
        """
        library = _import("onnxruntime", "onnx")
        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        exceptions = [each for each in vars(state).values() if isinstance(each, type)]
        self._errors = (ValueError, *(each for each in exceptions if issubclass(each, Exception)))
        options = library.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = num_threads, 1
        options.log_severity_level = 4  # errors are raised besides
        self._path, providers = path, ["CPUExecutionProvider"]
        try:
            self._session = library.InferenceSession(path, options, providers=providers)
        except self._errors as error:
            raise _as_user_error(path, "loaded", error) from error
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs by name; raises errors.UserError if the graph has other inputs."""
        try:
            return dict(zip(self._outputs, self._session.run(None, dict(inputs))))
        except self._errors as error:
            raise _as_user_error(self._path, "run", error) from error


class LiteRtGraph:
    """A graph of LiteRT on the CPU; inputs and outputs have the names of its tensors."""

    def __init__(self, path: str, num_threads: int):
        """Loads a graph; num_threads 0: as the library chooses.

        Raises errors.UserError if the library is missing or cannot load the file.
        """
        library = _import("ai_edge_litert.interpreter", "litert")
        self._path = path
        try:
            self._interpreter = library.Interpreter(path, num_threads=num_threads or None)
        except (ValueError, RuntimeError) as error:
            raise _as_user_error(path, "loaded", error) from error

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs by name; raises errors.UserError if the graph has other inputs."""
        try:
            return self._run(inputs)
        except (ValueError, RuntimeError, KeyError) as error:
            raise _as_user_error(self._path, "run", error) from error

    def _run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        interpreter = self._interpreter
        indices = {_name(each): each["index"] for each in interpreter.get_input_details()}
        for name, value in inputs.items():
            interpreter.resize_tensor_input(indices[name], value.shape)
        interpreter.allocate_tensors()
        for name, value in inputs.items():
            interpreter.set_tensor(indices[name], value)
        interpreter.invoke()
        outputs = interpreter.get_output_details()
        return {_name(each): interpreter.get_tensor(each["index"]) for each in outputs}


Graph = OnnxGraph | LiteRtGraph


class Backend(NamedTuple):
    """What runs the graphs of a format, the ending of their names, and the library that it needs."""

    graph: type
    suffix: str
    library: str


BACKENDS = {  # by the format of model.json
    "onnx": Backend(OnnxGraph, ".onnx", "onnxruntime"),
    "litert": Backend(LiteRtGraph, ".tflite", "ai_edge_litert"),
}


def is_installed(name: str) -> bool:
    """Returns whether the library of a format is there."""
    return importlib.util.find_spec(BACKENDS[name].library) is not None


def run_on_sequences(graph: Graph, sequences: Sequence[Sequence[int]], **others) -> dict[str, np.ndarray]:
    """Returns the outputs of a graph for sequences of token ids, which it gets a few at a time.

    Its memory grows with their number times the length of the longest, to which all are padded.
    """
    num_tokens = np.array(list(map(len, sequences)), np.int32)
    token_ids = np.zeros([len(sequences), max(np.max(num_tokens), 1)], np.int32)
    for row, ids in zip(token_ids, sequences):
        row[: len(ids)] = ids
    groups = [slice(start, start + _GROUP_ROWS) for start in range(0, len(sequences), _GROUP_ROWS)]
    inputs = ({"token_ids": token_ids[each], "num_tokens": num_tokens[each]} for each in groups)
    found = [graph.run({**others, **each}) for each in inputs]
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def _name(details: Mapping) -> str:
    """Returns the name of a tensor: waveform of serving_default_waveform:0."""
    return details["name"].split(":")[0].removeprefix("serving_default_")


def _import(module: str, extra: str):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise errors.UserError(
            f"{module.split('.')[0]}: cannot be imported ({error}), but the model's format needs it; "
            f"install it with pip install 'estimator-asr-runtime[{extra}]'"
        ) from error


def _as_user_error(path: str, action: str, error: Exception) -> errors.UserError:
    reason = " ".join(str(error).split())[:200]
    return errors.UserError(f"{path}: the graph cannot be {action} ({reason}); {_AGAIN}")
