"""Load an exported model and run it. Needs TensorFlow and the SavedModel, no model code: the export stands
alone."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from tfrecord_builder import errors

INFO_FILE = os.path.join("assets.extra", "export.json")
_GRAPH_FILE = "saved_model.pb"


@dataclasses.dataclass(frozen=True)
class Recogniser:
    """A session whose graph turns speech (or tokens) into text.

    inputs, outputs: name to tensor, each with the batch as first axis.
    """

    session: tf.compat.v1.Session
    inputs: Mapping[str, tf.Tensor]
    outputs: Mapping[str, tf.Tensor]

    def run(self, batch: Mapping[str, np.ndarray]) -> dict[str, list]:
        """Feed what `inputs` names, ignore the rest; give each output as one str or float an utterance."""
        feeds = {tensor: batch[name] for name, tensor in self.inputs.items()}
        values = self.session.run(dict(self.outputs), feeds)
        return {name: [_to_python(item) for item in value] for name, value in values.items()}


def load(version_dir: str, signature: str) -> Recogniser:
    """Load a version for one of its signatures.

    Args:
      version_dir: what `find_version` gave.
      signature: "serving_default", "waveform" or "features".
    """
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        meta_graph = tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], version_dir)
    definition = meta_graph.signature_def[signature]
    return Recogniser(session, _tensors(session, definition.inputs), _tensors(session, definition.outputs))


def find_version(path: str) -> str:
    """Find the newest version in an export directory, or accept one version of it.

    Raises:
      errors.UserError: there is no SavedModel.
    """
    if os.path.isfile(os.path.join(path, _GRAPH_FILE)):
        return path
    versions = list_versions(path)
    if not versions:
        raise errors.UserError(
            f"{path}: there is no SavedModel, expected an export directory or one version in it; "
            f"make one with python -m estimator_asr.export --export_dir={path}"
        )
    return os.path.join(path, str(versions[-1]))


def list_versions(export_dir: str) -> list[int]:
    """List the whole versions in an export directory, oldest first; none if the directory is not there."""
    names = os.listdir(export_dir) if os.path.isdir(export_dir) else []
    numbers = sorted(int(name) for name in names if name.isdecimal())
    return [
        number for number in numbers if os.path.isfile(os.path.join(export_dir, str(number), _GRAPH_FILE))
    ]


def read_info(version_dir: str) -> dict:
    """Read what the export says about itself.

    Raises:
      errors.UserError: it says nothing.
    """
    path = os.path.join(version_dir, INFO_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise errors.UserError(
            f"{path}: cannot be read ({error}), expected what estimator_asr.export writes; export again"
        ) from error


def _tensors(session: tf.compat.v1.Session, infos: Mapping) -> dict[str, tf.Tensor]:
    return {name: session.graph.get_tensor_by_name(info.name) for name, info in infos.items()}


def _to_python(item):
    return item.decode("utf-8") if isinstance(item, bytes) else item.item()
