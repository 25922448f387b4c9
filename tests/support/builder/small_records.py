"""Makes small data directories from which a tiny model can learn, because each token has its own mel bin."""

import collections
import dataclasses
import os

import numpy as np
import tensorflow as tf

from tfrecord_builder.audio import frontend
from tfrecord_builder.data import dataset_info, readings, schema, vocabulary
from tfrecord_builder.storage import files

FRONTEND = frontend.FrontendConfig(num_mel_bins=12)
TOKENS = vocabulary.Vocabulary(["<unk>", "hao3", "ma5", "ni3", "shi4"])
CHARACTERS = vocabulary.Vocabulary(["<unk>", "你", "吗", "好", "是", "事"])
READINGS = readings.Readings({"hao3": "好事", "ma5": "吗好", "ni3": "你吗", "shi4": "是事"})
_FRAMES_PER_TOKEN = 16
_SOUNDS = {"hao3": "好", "ma5": "吗", "ni3": "你", "shi4": "是"}


def make_data(
    path: str,
    splits=(("train", 12), ("dev", 3)),
    *,
    with_audio: bool = True,
    tokens: vocabulary.Vocabulary = TOKENS,
    frontend_config: frontend.FrontendConfig = FRONTEND,
    num_shards: int = 2,
    feature_mean: float = 1.0,
    change=lambda record: record,
) -> dataset_info.DatasetInfo:
    """Writes a data directory; utterance i of a split has 1 + i % 3 tokens. `change` may alter records."""
    os.makedirs(path)
    tokens.save(os.path.join(path, dataset_info.TOKENS_FILE))
    CHARACTERS.save(os.path.join(path, dataset_info.CHARACTERS_FILE))
    READINGS.save(os.path.join(path, dataset_info.READINGS_FILE))
    infos = {
        name: _write_split(
            path,
            name,
            [change(each) for each in make_records(name, count, tokens, frontend_config, with_audio)],
            num_shards,
        )
        for name, count in splits
    }
    bins = frontend_config.num_bins if with_audio else 0
    training = make_records("train", dict(splits).get("train", 0), tokens, frontend_config, with_audio)
    counts = collections.Counter(token for record in training for token in record.token_ids)
    info = dataset_info.DatasetInfo(
        frontend=frontend_config if with_audio else None,
        fbank_dtype="float16",
        token_type="syllable",
        tokens_sha256=tokens.sha256,
        characters_sha256=CHARACTERS.sha256,
        readings_sha256=READINGS.sha256,
        feature_mean=(feature_mean,) * bins,
        feature_stddev=(1.0,) * bins,
        splits=infos,
        num_rejected=0,
        token_counts=tuple(counts[token] for token in range(tokens.size)),
    )
    info.save(path)
    return info


def make_records(
    split, count, tokens=TOKENS, frontend_config=FRONTEND, with_audio=True
) -> list[schema.Record]:
    names = sorted(_SOUNDS)
    records = []
    for i in range(count):
        syllables = [names[(i + j) % len(names)] for j in range(1 + i % 3)]
        transcript = "".join(_SOUNDS[syllable] for syllable in syllables)
        fbank = _make_features(syllables, frontend_config.num_bins, seed=i) if with_audio else None
        records.append(
            schema.Record(
                f"{split}{i:03d}",
                f"S{i % 2}",
                transcript,
                " ".join(syllables),
                tokens.encode(syllables),
                CHARACTERS.encode(transcript),
                fbank,
                0 if fbank is None else 10 * len(fbank),
            )
        )
    return records


def without_words(record: schema.Record) -> schema.Record:
    """Returns a record like those of the builder's wordless copies: it has features, but no labels."""
    texts = {"transcript": "", "pronunciation": "", "token_ids": [], "character_ids": []}
    return dataclasses.replace(record, utterance_id=f"{record.utterance_id}~wordless-noise", **texts)


def _make_features(syllables, num_bins, seed):
    noise = np.random.default_rng(seed).normal(
        0, 0.1, [_FRAMES_PER_TOKEN * len(syllables) + seed % 4, num_bins]
    )
    for position, syllable in enumerate(syllables):
        begin = position * _FRAMES_PER_TOKEN
        noise[begin + 4 : begin + 12, sorted(_SOUNDS).index(syllable)] += 5
    return (noise + 1).astype(np.float16)


def _write_split(path, split, records, num_shards) -> dataset_info.SplitInfo:
    shards = []
    for index in range(num_shards):
        name, part = schema.shard_name(split, index, num_shards), records[index::num_shards]
        with tf.io.TFRecordWriter(os.path.join(path, name)) as writer:
            for record in part:
                writer.write(schema.make_example(record))
        file = os.path.join(path, name)
        shards.append(dataset_info.ShardInfo(name, len(part), os.path.getsize(file), files.sha256(file)))
    return dataset_info.SplitInfo(
        num_utterances=len(records),
        num_speakers=2,
        seconds=sum(record.duration_ms for record in records) / 1000,
        num_tokens=sum(len(record.token_ids) for record in records),
        num_characters=sum(len(record.character_ids) for record in records),
        unknown_tokens=0,
        unknown_characters=0,
        frame_lengths=dict(
            collections.Counter(len(record.fbank) for record in records if record.fbank is not None)
        ),
        token_lengths=dict(collections.Counter(len(record.token_ids) for record in records)),
        shards=tuple(shards),
    )
