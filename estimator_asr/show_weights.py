"""Lists the weights in Keras .h5 files, checkpoints and model directories, with their shapes and norms.

    python -m estimator_asr.show_weights FILE_OR_DIR...

For a directory, the newest checkpoint is listed. `norm` is the L2 norm, and `rms` is the root mean square.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import checkpoints
from estimator_asr.pretrained import warm_start
from tfrecord_builder import errors
from tfrecord_builder.program import program


def describe(path: str) -> Iterator[str]:
    """Yields the lines to print for a file or directory; raises errors.UserError if it cannot be read."""
    source, weights = read(path)
    width = max(map(len, weights), default=0)
    yield source
    yield f"  {'name':{width}}  {'shape':20} {'norm':>11} {'rms':>11}"
    for name, value in weights.items():
        norm = np.linalg.norm(np.asarray(value, np.float64))
        rms = norm / max(value.size, 1) ** 0.5
        yield f"  {name:{width}}  {str(list(value.shape)):20} {norm:11.5g} {rms:11.5g}"
    yield f"  {len(weights)} weights, {sum(value.size for value in weights.values()):,} values"


def read(path: str) -> tuple[str, dict[str, np.ndarray]]:
    """Returns the path of the Keras file or the (newest) checkpoint, and the weights, keyed by name."""
    if warm_start.is_other_file(path):
        return path, _read_keras(path)
    checkpoint = warm_start.find_checkpoint(path)
    values = checkpoints.iterate(checkpoint)
    return checkpoint, {name: value for name, value in values if value.dtype.kind not in "OSU"}


def _read_keras(path):
    """Reads the weights in a Keras HDF5 file: {"layer/weight": array}, in the order of the layers.

    `model.save` puts the layers into the group model_weights, and `save_weights` puts them into the root. In
    both cases, the attribute layer_names lists the layers, and each layer's attribute weight_names lists its
    weights. Files named *.weights.h5 have neither attribute; Keras numbers the layers of each class and their
    weights (layers/dense_1/vars/0).
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            if "layer_names" not in file.attrs and "layers" in file:
                raise errors.UserError(
                    f"{path} has numbers instead of weight names, like every *.weights.h5 file; load it into "
                    "its model in Keras, and save the model with model.save('FILE.h5')"
                )
            weights = dict(_read_layers(file["model_weights"] if "model_weights" in file else file))
    except (OSError, KeyError, RuntimeError) as error:
        raise errors.UserError(
            f"{path} is not a complete Keras .h5 file ({str(error).splitlines()[0]}); copy it again, or save "
            "it with model.save('FILE.h5')"
        ) from error
    if not weights:
        raise errors.UserError(
            f"{path} has no layer weights; pass a trained model that Keras wrote with model.save('FILE.h5')"
        )
    return weights


def _read_layers(group):
    for layer in map(tf.compat.as_str, group.attrs.get("layer_names", ())):
        for name in map(tf.compat.as_str, group[layer].attrs.get("weight_names", ())):
            yield name.removesuffix(":0"), np.asarray(group[layer][name])


def main(paths: list[str]) -> int:
    """Prints the weights of each path; returns exit code 1 if a path cannot be read."""
    if not paths:
        raise errors.UserError("show_weights: FILE_OR_DIR is missing; pass at least one file or directory")
    exit_code = 0
    for path in paths:
        try:
            print("\n".join(describe(path)))
        except errors.UserError as error:
            print(f"error: {error}", file=sys.stderr)
            exit_code = 1
    return exit_code


if __name__ == "__main__":
    program.run(main, takes_words=True)
