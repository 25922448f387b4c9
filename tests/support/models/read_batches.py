"""Batches from an input_fn as arrays."""

import dataclasses
import itertools

from estimator_asr.experiment import config, task_spec
from estimator_asr.inputs import input_fn, splits

SETTINGS = config.InputConfig(
    batch_frames=160, batch_tokens=5, num_buckets=2, shuffle_records=100, spec_augment=False
)
MASKED = dataclasses.replace(SETTINGS, spec_augment=True, time_mask_fraction=0.9, time_mask_frames=30)


def read(
    data, num_batches=None, *, split="train", model="acoustic", training=True, settings=SETTINGS, **options
):
    """Returns the first num_batches batches, or all batches if num_batches is None."""
    info, path = data
    source = splits.read_split([info], [path], split, task_spec.SPECS[model])
    build = input_fn.build_input_fn(source, settings, training=training, **options)
    return list(itertools.islice(input_fn.read_elements(build), num_batches))
