"""A part of a split, for what need not read all of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import tqdm

from estimator_asr.experiment import config as config_lib
from estimator_asr.inputs import input_fn, splits


def read(
    source: splits.Split, config: config_lib.InputConfig, max_utterances: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yields features of about max_utterances of a split, chosen by their ids, in batches.

    A batch has the features of input_fn, without those that are not one value per utterance.
    """
    limit = 2**32 * max_utterances / source.num_utterances
    batches = input_fn.read_elements(input_fn.build_input_fn(source, config, training=False))
    with tqdm.tqdm(total=source.num_utterances, unit=" utterances", desc="read", disable=None) as progress:
        for batch, _ in batches:
            progress.update(len(batch["utterance_id"]))
            chosen = [zlib.crc32(name) < limit for name in batch["utterance_id"]]
            if any(chosen):
                yield {name: value[chosen] for name, value in batch.items() if len(value) == len(chosen)}
