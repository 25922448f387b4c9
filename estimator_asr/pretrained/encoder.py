"""Encodes a data directory: checks the data, encodes the shards, and copies the other files."""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Sequence
from typing import Optional

from estimator_asr.inputs import splits
from estimator_asr.pretrained import encoder_weights, shard_encoder
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend, pretrained_encoder
from tfrecord_builder.building import output_directory, resumable
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.data import dataset_info, recordings
from tfrecord_builder.storage import files

_COPIED = (
    dataset_info.TOKENS_FILE,
    dataset_info.CHARACTERS_FILE,
    dataset_info.READINGS_FILE,
    dataset_info.BPE_FILE,
    dataset_info.REJECTED_FILE,
    dataset_info.REPORT_FILE,
)


def encode(
    weights: str,
    data_dir: str,
    output_dir: str,
    layers: Sequence[int],
    num_workers: Optional[int],
    overwrite: bool,
    runner: str = dispatch.LOCAL,
) -> dataset_info.DatasetInfo:
    """Encodes data_dir into output_dir (see estimator_asr.encode); returns the DatasetInfo of output_dir.

    Raises UserError if the encoder does not fit the data, a file is damaged, or output_dir cannot be used.
    """
    if os.path.realpath(data_dir) == os.path.realpath(output_dir):
        raise errors.UserError(
            f"encode: --output_dir={output_dir} is the same directory as --data_dir; choose another "
            "--output_dir"
        )
    info = dataset_info.DatasetInfo.load(data_dir)
    encoder = encoder_weights.read(weights)[0]
    _check_data(data_dir, info, encoder)
    applied = pretrained_encoder.Applied(encoder, _choose_layers(layers, encoder))
    shards = _list_shards(info, data_dir)
    shared = (data_dir, output_dir, weights)
    with (
        dispatch.connect(runner, num_workers, shared) as run,
        output_directory.reserve(output_dir, overwrite),
    ):
        fingerprint = resumable.hash_json([dataclasses.asdict(applied), *map(dataclasses.asdict, shards)])
        directory = output_directory.start(output_dir, fingerprint, overwrite)
        encoder_weights.save(directory, weights)
        writer = shard_encoder.ShardEncoder(directory, data_dir, weights, applied, info.fbank_dtype)
        encoded_shards = run(shards, writer, "encoding")
        for name in (*_COPIED, *(recordings.path_of(shard.file) for shard in shards)):
            source = os.path.join(data_dir, name)
            if files.exists(source):
                files.copy(source, os.path.join(directory, name))
        new_info = _describe(info, applied, {shard.file: shard for shard in encoded_shards})
        output_directory.publish(output_dir, new_info)
    return new_info


def _check_data(data_dir, info, encoder):
    advice = f"build the data with --frontend={frontend.input_of(encoder).frontend}"
    if info.frontend is None or info.frontend.encoder:
        content = "data that are already encoded" if info.frontend else "text"
        raise errors.UserError(f"{data_dir} contains {content}, but encode needs audio features; {advice}")
    frontend.check_input(data_dir, info.frontend, encoder)


def _choose_layers(layers, encoder):
    chosen = tuple(layers) or pretrained_encoder.choose_layers(encoder.layers)
    if list(chosen) != sorted(set(chosen)) or not 1 <= chosen[0] <= chosen[-1] <= encoder.layers:
        raise errors.UserError(
            f"encode: --layers is {','.join(map(str, chosen))}, expected increasing block numbers from 1 to "
            f"{encoder.layers}; pass such numbers, or leave the flag out"
        )
    return chosen


def _list_shards(info, data_dir):
    shards = []
    for split, described in sorted(info.splits.items()):
        info.shard_paths(data_dir, split)  # checks that the shards exist and have the right sizes
        splits.check_lengths(data_dir, info, split)
        shards += [
            shard_encoder.ShardToEncode(shard.file, split, shard.num_records, shard.num_bytes, shard.sha256)
            for shard in described.shards
        ]
    return shards


def _describe(info, applied, encoded_shards):
    """Returns the DatasetInfo of the encoded data; `encoded_shards` maps file names to Encoded objects."""
    splits = {}
    for name, split in info.splits.items():
        lengths: collections.Counter = collections.Counter()
        shards = []
        for shard in split.shards:
            encoded = encoded_shards[shard.file]
            lengths.update({int(length): count for length, count in encoded.lengths.items()})
            shards.append(dataclasses.replace(shard, num_bytes=encoded.num_bytes, sha256=encoded.sha256))
        splits[name] = dataclasses.replace(
            split, frame_lengths=dict(sorted(lengths.items())), shards=tuple(shards)
        )
    features = dataclasses.replace(info.frontend, encoder=applied)
    no_moments = {"feature_mean": (), "feature_stddev": ()}
    return dataclasses.replace(info, frontend=features, fbank_dtype="float16", splits=splits, **no_moments)
