"""Builds small data directories, and changes their records, for tests of the code that reads them."""

import dataclasses
import hashlib
import os
import pathlib

import small_corpora
import tensorflow as tf

from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import augmentation_config
from tfrecord_builder.building import builder
from tfrecord_builder.data import dataset_info, schema
from tfrecord_builder.labels import labelling, vocabularies

_SECTIONS = (
    frontend.FrontendConfig,
    augmentation_config.AugmentationConfig,
    labelling.LabelConfig,
    vocabularies.VocabularyConfig,
)


def build(corpus_dirs, output_dir, **flags) -> dataset_info.DatasetInfo:
    """Builds a data directory from one or a list of corpus directories; by default with one worker."""
    others = []
    for config_class in _SECTIONS:
        names = [field.name for field in dataclasses.fields(config_class) if field.name in flags]
        others.append(config_class(**{name: flags.pop(name) for name in names}))
    dirs = tuple(map(str, corpus_dirs)) if isinstance(corpus_dirs, list) else (str(corpus_dirs),)
    usual = {} if "runner" in flags else {"num_workers": 1}
    config = builder.BuildConfig(corpus_dir=dirs, output_dir=str(output_dir), **{**usual, **flags})
    return builder.build(config, *others)


def make(directory: pathlib.Path, num_train: int = 12, num_dev: int = 3, **flags) -> str:
    """Builds directory/data from directory/corpus; train has three shards."""
    corpus_dir = small_corpora.make_manifest_corpus(directory / "corpus", num_train, num_dev)
    build(corpus_dir, directory / "data", num_shards=3, **flags)
    return str(directory / "data")


def make_text(directory: pathlib.Path) -> str:
    """Builds directory/text from three sentences."""
    build(small_corpora.make_text_corpus(directory / "sentences"), directory / "text", corpus="text")
    return str(directory / "text")


def make_punctuated(directory: pathlib.Path, **flags) -> str:
    """Builds directory/marks from ten paragraphs with punctuation marks."""
    corpus_dir = small_corpora.make_punctuated_corpus(directory / "paragraphs")
    build(corpus_dir, directory / "marks", corpus="punctuated", **{"num_shards": 2, **flags})
    return str(directory / "marks")


def contents(directory: pathlib.Path) -> dict[str, bytes]:
    """Returns {name: content} of the files in a directory."""
    return {name: (directory / name).read_bytes() for name in sorted(os.listdir(directory))}


def read(path: str | pathlib.Path) -> list[bytes]:
    """Returns the serialised records of a shard."""
    return list(schema.read_shard(str(path)))


def parse(data_dir, split: str, **options) -> list[dict]:
    """Returns the parsed records of a split; the options are those of schema.parse_records."""
    paths = dataset_info.DatasetInfo.load(str(data_dir)).shard_paths(str(data_dir), split)
    return list(schema.parse_records([record for path in paths for record in read(path)], **options))


def rewrite(data_dir: str, name: str, records: list[bytes]) -> None:
    """Replaces the records of a shard, and updates its size, hash and count in dataset_info.json."""
    path = os.path.join(data_dir, name)
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    content = pathlib.Path(path).read_bytes()
    replaced = dataset_info.ShardInfo(name, len(records), len(content), hashlib.sha256(content).hexdigest())
    info = dataset_info.DatasetInfo.load(data_dir)
    splits = {
        split: dataclasses.replace(
            each, shards=tuple(replaced if shard.file == name else shard for shard in each.shards)
        )
        for split, each in info.splits.items()
    }
    dataclasses.replace(info, splits=splits).save(data_dir)


def change(serialized: bytes, data_dir: str, **changes) -> bytes:
    """Returns a serialised record with some fields replaced."""
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


def change_record(data_dir, name: str, index: int, **changes) -> None:
    """Replaces some fields of a record in a shard, and updates dataset_info.json."""
    records = read(os.path.join(data_dir, name))
    records[index] = change(records[index], str(data_dir), **changes)
    rewrite(str(data_dir), name, records)
