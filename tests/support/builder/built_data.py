"""A small data directory as the builder makes it, and ways to spoil it, for the tests of what reads one."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib

import small_corpora
import tensorflow as tf

from tfrecord_builder.audio import frontend
from tfrecord_builder.building import builder
from tfrecord_builder.data import dataset_info, schema


def make(directory: pathlib.Path, num_train: int = 12, num_dev: int = 3, **options) -> str:
    """Builds directory/data from directory/corpus; train has three shards."""
    corpus_dir = small_corpora.make_manifest_corpus(directory / "corpus", num_train, num_dev)
    data_dir = str(directory / "data")
    config = builder.BuildConfig(
        corpus_dir=(corpus_dir,), output_dir=data_dir, num_shards=3, num_workers=1, **options
    )
    builder.build(config, frontend.FrontendConfig())
    return data_dir


def make_text(directory: pathlib.Path) -> str:
    """Builds directory/text from three sentences."""
    config = builder.BuildConfig(
        corpus="text",
        corpus_dir=(small_corpora.make_text_corpus(directory / "sentences"),),
        output_dir=str(directory / "text"),
        num_workers=1,
    )
    builder.build(config, frontend.FrontendConfig())
    return config.output_dir


def make_punctuated(directory: pathlib.Path, **options) -> str:
    """Builds directory/marks from ten paragraphs with punctuation marks."""
    config = builder.BuildConfig(
        corpus="punctuated",
        corpus_dir=(small_corpora.make_punctuated_corpus(directory / "paragraphs"),),
        output_dir=str(directory / "marks"),
        **{"num_workers": 1, "num_shards": 2, **options},
    )
    builder.build(config, frontend.FrontendConfig())
    return config.output_dir


def read(path: str | pathlib.Path) -> list[bytes]:
    """Returns the serialised records of a shard."""
    return list(schema.read_shard(str(path)))


def rewrite(data_dir: str, name: str, records: list[bytes]) -> None:
    """Puts other records into a shard and notes its new size, hash and count as if they were right."""
    path = os.path.join(data_dir, name)
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    content = pathlib.Path(path).read_bytes()
    said = dataset_info.ShardInfo(name, len(records), len(content), hashlib.sha256(content).hexdigest())
    info = dataset_info.DatasetInfo.load(data_dir)
    splits = {
        split: dataclasses.replace(
            each, shards=tuple(said if shard.file == name else shard for shard in each.shards)
        )
        for split, each in info.splits.items()
    }
    dataclasses.replace(info, splits=splits).save(data_dir)


def change(serialized: bytes, data_dir: str, **changes) -> bytes:
    """Returns a record with other fields."""
    info = dataset_info.DatasetInfo.load(data_dir)
    (example,) = schema.parse_records([serialized], 80, info.fbank_dtype)
    record = schema.Record(
        **{
            name: example[name].decode()
            for name in ("utterance_id", "speaker", "transcript", "pronunciation")
        },
        token_ids=example["token_ids"].tolist(),
        character_ids=example["character_ids"].tolist(),
        fbank=example["fbank"].astype(info.fbank_dtype),
        duration_ms=int(example["duration_ms"]),
    )
    return schema.make_example(dataclasses.replace(record, **changes))
