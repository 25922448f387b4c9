"""Lists the weights of Keras .h5 files, checkpoints and model directories: names, shapes, norms.

    python -m estimator_asr.show_weights FILE_OR_DIR...

For a directory, its newest checkpoint is listed. `norm` is the L2 norm, `rms` the root mean square.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tfrecord_builder.runtime import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import numpy as np

from estimator_asr.checkpointing.pretrained import weight_files
from tfrecord_builder import errors
from tfrecord_builder.settings import program


def describe(path: str) -> Iterator[str]:
    """Yields the lines of one file or directory.

    Raises:
        errors.UserError: the file is missing or damaged.
    """
    source, weights = weight_files.read(path)
    width = max(map(len, weights), default=0)
    yield source
    yield f"  {'name':{width}}  {'shape':20} {'norm':>11} {'rms':>11}"
    for name, value in weights.items():
        norm = np.linalg.norm(np.asarray(value, np.float64))
        rms = norm / max(value.size, 1) ** 0.5
        yield f"  {name:{width}}  {str(list(value.shape)):20} {norm:11.5g} {rms:11.5g}"
    yield f"  {len(weights)} weights, {sum(value.size for value in weights.values()):,} values"


def main(paths: list[str]) -> int:
    """Lists the weights of each path; the exit code is 1 if one cannot be read."""
    if not paths:
        raise errors.UserError("show_weights: no path is given, expected FILE_OR_DIR...; pass at least one")
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
