"""Runs graphs with ONNX Runtime or LiteRT; each library is imported only if a model needs it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from estimator_asr_runtime import errors

_AGAIN = "copy the export again, or export the model again"
_GROUP_ROWS = 4  # sequences per run of a graph


class OnnxGraph:
    """A graph that runs on the CPU with ONNX Runtime."""

    def __init__(self, path: str, num_threads: int):
        """Loads a graph; num_threads is ONNX Runtime's intra_op_num_threads (0: one thread per core).

        Raises errors.UserError if the library is missing or cannot load the file.
        """
        library = _import("onnxruntime", "onnx")
        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        classes = [value for value in vars(state).values() if isinstance(value, type)]
        self._errors = (ValueError, *(kind for kind in classes if issubclass(kind, Exception)))
        options = library.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = num_threads, 1
        options.log_severity_level = 4  # logs only fatal errors, because other errors are raised
        self._path, providers = path, ["CPUExecutionProvider"]
        try:
            self._session = library.InferenceSession(path, options, providers=providers)
        except self._errors as error:
            raise _as_user_error(path, "loaded", error) from error
        self._outputs = [output.name for output in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs, keyed by name; raises errors.UserError if the inputs do not fit the graph."""
        try:
            return dict(zip(self._outputs, self._session.run(None, dict(inputs))))
        except self._errors as error:
            raise _as_user_error(self._path, "run", error) from error


class LiteRtGraph:
    """A graph that runs on the CPU with LiteRT; inputs and outputs are named after its tensors."""

    def __init__(self, path: str, num_threads: int):
        """Loads a graph; if num_threads is 0, LiteRT chooses the number of threads.

        Raises errors.UserError if the library is missing or cannot load the file.
        """
        library = _import("ai_edge_litert.interpreter", "litert")
        self._path = path
        try:
            self._interpreter = library.Interpreter(path, num_threads=num_threads or None)
        except (ValueError, RuntimeError) as error:
            raise _as_user_error(path, "loaded", error) from error

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs, keyed by name; raises errors.UserError if the inputs do not fit the graph."""
        interpreter = self._interpreter
        indices = {_name(details): details["index"] for details in interpreter.get_input_details()}
        try:
            for name, value in inputs.items():
                interpreter.resize_tensor_input(indices[name], value.shape)
            interpreter.allocate_tensors()
            for name, value in inputs.items():
                interpreter.set_tensor(indices[name], value)
            interpreter.invoke()
            outputs = interpreter.get_output_details()
            return {_name(details): interpreter.get_tensor(details["index"]) for details in outputs}
        except (ValueError, RuntimeError, KeyError) as error:
            raise _as_user_error(self._path, "run", error) from error


Graph = OnnxGraph | LiteRtGraph


class Backend(NamedTuple):
    """A graph format: the class that runs such graphs, their file suffix, and the library that it needs."""

    graph: type
    suffix: str
    library: str


BACKENDS = {  # the keys are the formats in model.json
    "onnx": Backend(OnnxGraph, ".onnx", "onnxruntime"),
    "litert": Backend(LiteRtGraph, ".tflite", "ai_edge_litert"),
}


def is_installed(name: str) -> bool:
    """Returns True if the library for a format is installed."""
    return importlib.util.find_spec(BACKENDS[name].library) is not None


def run_on_sequences(graph: Graph, sequences: Sequence[Sequence[int]], **others) -> dict[str, np.ndarray]:
    """Runs a graph on sequences of token ids, a few at a time; returns all outputs, keyed by name.

    The graph's memory grows with the number of sequences times the longest length, to which all sequences are
    padded. `others` are further inputs, the same in each run.
    """
    num_tokens = np.array(list(map(len, sequences)), np.int32)
    token_ids = np.zeros([len(sequences), max(np.max(num_tokens), 1)], np.int32)
    for row, ids in zip(token_ids, sequences):
        row[: len(ids)] = ids
    groups = [slice(start, start + _GROUP_ROWS) for start in range(0, len(sequences), _GROUP_ROWS)]
    inputs = ({"token_ids": token_ids[group], "num_tokens": num_tokens[group]} for group in groups)
    outputs = [graph.run({**others, **group_inputs}) for group_inputs in inputs]
    return {name: np.concatenate([output[name] for output in outputs]) for name in outputs[0]}


def _name(details: Mapping) -> str:
    """Returns a tensor's plain name, for example waveform for serving_default_waveform:0."""
    return details["name"].split(":")[0].removeprefix("serving_default_")


def _import(module: str, extra: str):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise errors.UserError(
            f"the model's format needs {module.split('.')[0]}, which cannot be imported ({error}); "
            f"run pip install 'estimator-asr-runtime[{extra}]'"
        ) from error


def _as_user_error(path: str, action: str, error: Exception) -> errors.UserError:
    reason = " ".join(str(error).split())[:200]
    return errors.UserError(f"{path}: the graph cannot be {action} ({reason}); {_AGAIN}")
