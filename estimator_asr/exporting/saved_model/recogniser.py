"""Loads and runs an exported model; needs only TensorFlow and the SavedModel, no model code."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional, Protocol

import numpy as np
import tensorflow as tf
from google.protobuf import message

from estimator_asr.exporting.saved_model import export_info
from estimator_asr_runtime import errors as runtime_errors
from estimator_asr_runtime import written_form
from tfrecord_builder import errors

_GRAPH_FILE = "saved_model.pb"
_LOWEST = float(np.finfo(np.float32).min)  # pads the scores of n-best lists; see ranking.rank
STATE = "state_"  # name prefix of the inputs and outputs that hold a stream's state
HOTWORDS = "hotwords"  # name of the hotwords input in signatures.py
PUNCTUATE = "punctuate"  # name of the signature that marking.py builds
# Errors that TensorFlow raises for a SavedModel that it cannot load.
_LOAD_ERRORS = (tf.errors.OpError, message.Error, OSError, RuntimeError, ValueError, TypeError, LookupError)


@dataclasses.dataclass(frozen=True)
class Recogniser:
    """A session whose graph turns speech (or tokens) into text.

    inputs, outputs: tensors by name; the first axis of each is the batch.
    constants: inputs whose values are the same for every batch.
    form: rules for writing numbers in text with marks; only for the signature "punctuate".
    """

    session: tf.compat.v1.Session
    inputs: Mapping[str, tf.Tensor]
    outputs: Mapping[str, tf.Tensor]
    constants: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    form: Optional[written_form.WrittenForm] = None

    def run(self, batch: Mapping[str, np.ndarray]) -> dict[str, list]:
        """Returns each output as a list with a str, a float or a list for each utterance.

        Outputs with a dot in their name, such as characters.start, are grouped under the part before the dot:
        `characters` has, for each utterance, a list of dicts whose keys are the parts after the dot. Keys of
        `batch` that are not inputs are ignored.
        """
        return list_results(self.fetch(batch))

    def fetch(self, batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Returns the outputs as arrays, as the graph computes them; ignores keys that are not inputs."""
        values = {**batch, **self.constants}
        feeds = {tensor: values[name] for name, tensor in self.inputs.items()}
        return self.session.run(dict(self.outputs), feeds)


@dataclasses.dataclass(frozen=True)
class LoadedVersion:
    """A version of an export, loaded into a session; `definitions` maps names to SignatureDefs."""

    version_dir: str
    info: export_info.ExportInfo
    session: tf.compat.v1.Session
    definitions: Mapping

    def find(self, signature: str, hotwords: Sequence[str] = ()) -> Recogniser:
        """Returns a recogniser that runs a signature, named without `_hotwords`, such as "waveform".

        `hotwords` apply to every batch; docs/decode.md explains their format.

        Raises errors.UserError if there is no such signature, or the model does not support hotwords.
        """
        twin = f"{signature}_{HOTWORDS}"
        if hotwords and signature in self.definitions and twin not in self.definitions:
            raise errors.UserError(
                f"{self.version_dir}: the model does not support hotwords, which need syllable tokens and "
                "beam search; export a syllable model with --decoding=beam, or omit the hotwords"
            )
        with _as_user_errors(self.version_dir):
            definition = self.definitions[twin if hotwords else signature]
            inputs, outputs = (
                # sorted, because the order of protocol buffer maps differs between processes
                {name: self.session.graph.get_tensor_by_name(infos[name].name) for name in sorted(infos)}
                for infos in (definition.inputs, definition.outputs)
            )
        constants = {HOTWORDS: np.array(hotwords, object)} if hotwords else {}
        return Recogniser(self.session, inputs, outputs, constants)

    def find_punctuate(self) -> Optional[Recogniser]:
        """Returns a recogniser for the signature "punctuate"; None if there is no punctuation model."""
        return dataclasses.replace(self.find(PUNCTUATE), form=self.form) if self.form else None

    @functools.cached_property
    def form(self) -> Optional[written_form.WrittenForm]:
        """The rules for writing numbers; None if there is no punctuation model.

        Exports from earlier releases do not contain rules, and use the rules of this release.
        """
        name = export_info.WRITTEN_FORM_FILE
        path = os.path.join(self.version_dir, name) if name in self.info.files else written_form.PATH
        try:
            return written_form.load(path) if self.info.punctuation else None
        except runtime_errors.UserError as error:
            raise errors.UserError(str(error)) from error


def load(version_dir: str, signature: str, hotwords: Sequence[str] = ()) -> Recogniser:
    """Loads a version (see find_version) and returns a recogniser that runs one signature (see find)."""
    return load_version(version_dir).find(signature, hotwords)


def load_version(version_dir: str) -> LoadedVersion:
    """Loads a version (see find_version) once for all of its signatures.

    Raises errors.UserError if a file in the export is missing or damaged.
    """
    info = export_info.load(version_dir)
    info.check_files(version_dir)
    session = open_session(tf.Graph())
    try:
        with _as_user_errors(version_dir), session.graph.as_default():
            meta_graph = tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], version_dir)
    except errors.UserError:
        session.close()
        raise
    definitions = dict(meta_graph.signature_def)  # a protocol buffer map would add any key that is looked up
    return LoadedVersion(version_dir, info, session, definitions)


def open_session(graph: tf.Graph) -> tf.compat.v1.Session:
    """Opens a session without Grappler, which takes seconds for a cascade but makes no batch faster."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(graph=graph, config=config)


@contextlib.contextmanager
def _as_user_errors(version_dir: str) -> Iterator[None]:
    try:
        yield
    except _LOAD_ERRORS as error:
        raise errors.UserError(
            f"{version_dir}: the SavedModel cannot be loaded ({type(error).__name__}); copy the export "
            "again, or export the model again"
        ) from error


def find_version(path: str) -> str:
    """Returns the path of the newest version in an export directory, or `path` if it is itself a version.

    Raises errors.UserError if there is no SavedModel.
    """
    if _is_version(path):
        return path
    versions = list_versions(path)
    if not versions:
        raise errors.UserError(
            f"{path} contains no SavedModel; pass an export directory or one of its versions, or create an "
            f"export with python -m estimator_asr.export --export_dir={path}"
        )
    return os.path.join(path, str(versions[-1]))


def list_versions(export_dir: str) -> list[int]:
    """Returns the versions in an export directory, oldest first; [] if the directory does not exist.

    A version's name is its number without leading zeros. A version whose graph is missing is listed too,
    because an older version must not be loaded silently in its place.
    """
    names = os.listdir(export_dir) if os.path.isdir(export_dir) else []
    numbers = sorted(int(name) for name in names if name.isdecimal() and name == str(int(name)))
    return [number for number in numbers if _is_version(os.path.join(export_dir, str(number)))]


def _is_version(path: str) -> bool:
    return any(os.path.isfile(os.path.join(path, name)) for name in (_GRAPH_FILE, export_info.INFO_FILE))


def list_results(values: Mapping[str, np.ndarray]) -> dict[str, list]:
    """Converts Recogniser.fetch's outputs to the form that Recogniser.run returns; states remain arrays."""
    results, groups = {}, {}
    for name, value in values.items():
        group, _, field = name.partition(".")
        if name.startswith(STATE):
            results[name] = list(value)
        elif field:
            groups.setdefault(group, {})[field] = value
        else:
            results[name] = [_to_python(item) for item in value]
    for group, fields in groups.items():
        results[group] = [_list_items(fields, columns) for columns in zip(*fields.values())]
    return results


def find_pauses(items: Sequence[Mapping]) -> np.ndarray:
    """Returns the silence after each character in seconds, float32 [num_characters]; 0 for the last one."""
    starts = [*(item["start"] for item in items[1:]), *(item["end"] for item in items[-1:])]
    return np.float32([start - item["end"] for start, item in zip(starts, items)])


def _list_items(fields: Mapping[str, np.ndarray], columns: Sequence[np.ndarray]) -> list[dict]:
    """Returns an utterance's items except padding (an empty character or token, or the lowest score)."""
    items = [dict(zip(fields, map(_to_python, item))) for item in zip(*columns)]
    real_items = (item for item in items if item.get("character") != "" and item.get("token") != "")
    return [item for item in real_items if item.get("score", 0.0) > _LOWEST]


def _to_python(item):
    if isinstance(item, np.ndarray):
        return [_to_python(part) for part in item]
    if isinstance(item, bytes):
        return item.decode("utf-8")
    return float(str(item)) if isinstance(item, np.floating) else item.item()  # 0.12 instead of 0.11999999731


class RunsBatches(Protocol):
    """An object that recognises batches: a Recogniser, or a replacement that works chunk by chunk."""

    def run(self, batch: Mapping[str, np.ndarray]) -> dict[str, list]: ...


def recognise_batches(
    model: RunsBatches, batches: Iterable[Mapping[str, np.ndarray]]
) -> Iterator[tuple[dict, dict]]:
    """Recognises batches; yields, for each utterance, dicts of its values in the batch and of its outputs.

    A batch has at least the model's inputs, as arrays whose first axis is the batch. For the outputs, see
    Recogniser.run.
    """
    for batch in batches:
        outputs = model.run(batch)
        for i, row in enumerate(zip(*outputs.values())):
            yield {name: value[i] for name, value in batch.items()}, dict(zip(outputs, row))
