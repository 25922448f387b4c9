"""Small data directories, and models with random weights for tests that need trained models."""

import collections
import dataclasses
import os
import zlib

import numpy as np
import small_hubert
import small_models
import small_whisper
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import decoding_files, experiment, model_directory, training_config
from estimator_asr.models.tasks import tasks
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder.audio import frontend, pretrained_encoder
from tfrecord_builder.data import dataset_info, readings, schema, vocabulary

GLOBAL_STEP = 7
FRONTEND = frontend.FrontendConfig(num_mel_bins=20)
TOKENS = vocabulary.Vocabulary(["<unk>", "hao3", "ma5", "ni3", "shi4", "tian1"])
OTHER_TOKENS = vocabulary.Vocabulary(["<unk>", "hao3", "ni3", "qi4", "zi4"])
CHARACTERS = vocabulary.Vocabulary(["<unk>", "你", "吗", "好", "妈", "字", "是", "气", "郝"])
READINGS = readings.Readings(
    {"hao3": "好郝", "ma5": "吗", "ni3": "你", "shi4": "是", "tian1": "天", "qi4": "气", "zi4": "字"}
)


def make_waveform(num_samples: int, seed: int) -> np.ndarray:
    """Returns a noisy tone that changes every 100 ms, rounded to 16-bit samples, float32 [num_samples]."""
    rng = np.random.default_rng(seed)
    times = np.arange(num_samples) / FRONTEND.sample_rate
    pitches_hz = rng.uniform(100, 4000, num_samples // 1600 + 1)[np.arange(num_samples) // 1600]
    waveform = 0.3 * np.sin(2 * np.pi * pitches_hz * times) + 0.05 * rng.standard_normal(num_samples)
    return (np.round(waveform * 32768) / 32768).astype(np.float32)


def extract(waveform: np.ndarray) -> np.ndarray:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(frontend.extract(waveform, FRONTEND))


def make_acoustic_model(
    path: str,
    tokens: vocabulary.Vocabulary = TOKENS,
    token_type: str = "syllable",
    encoder: str = "conformer",
    seed: int = 3,
    chunk_frames: int = 0,
):
    config = _make_config("acoustic", tokens, token_type, encoder)
    chosen = dataclasses.replace(config.acoustic, chunk_frames=chunk_frames)
    config = dataclasses.replace(config, acoustic=chosen)
    return _save_model(path, config, {dataset_info.TOKENS_FILE: tokens}, seed)


def make_pretrained_model(path: str, family: str, layers: tuple[int, ...] = (1, 2)):
    """Saves a model on top of a frozen encoder, with the encoder's published files in PATH-FAMILY."""
    write = {"whisper": small_whisper.write_whole, "hubert": small_hubert.write}[family]
    published = write(f"{path}-{family}")
    applied = pretrained_encoder.Applied(encoder_weights.read(published)[0], layers)
    config = _make_config("acoustic", TOKENS, encoder=family)
    config = dataclasses.replace(
        config,
        acoustic=dataclasses.replace(config.acoustic, pretrained=applied),
        frontend=dataclasses.replace(frontend.input_of(applied.encoder), encoder=applied),
    )
    model = _save_model(path, config, {dataset_info.TOKENS_FILE: TOKENS}, seed=3)
    encoder_weights.save(path, published)
    return model


def make_language_model(
    path: str, tokens: vocabulary.Vocabulary = TOKENS, seed: int = 0, token_type: str = "syllable"
):
    config = _make_config("language", tokens, token_type)
    files = {
        dataset_info.TOKENS_FILE: tokens,
        dataset_info.CHARACTERS_FILE: CHARACTERS,
        dataset_info.READINGS_FILE: READINGS,
    }
    return _save_model(path, config, files, seed)


def make_punctuation_model(path: str, seed: int = 0, **decode):
    """Saves a model that knows CHARACTERS; `decode` are fields of DecodeConfig."""
    config = _make_config("punctuation", TOKENS)
    model = _save_model(path, config, {dataset_info.CHARACTERS_FILE: CHARACTERS}, seed)
    chosen = dataclasses.replace(model.decode, **decode)
    decoding_files.save(path, decoding_files.Decoding(chosen))
    return dataclasses.replace(model, decode=chosen)


def make_data(
    path: str,
    with_audio: bool = True,
    tokens: vocabulary.Vocabulary = TOKENS,
    extract=extract,
    features: frontend.FrontendConfig = FRONTEND,
    final_mark: str = "",
) -> dict[str, tuple]:
    """Writes a data directory; `extract` computes the features from a waveform.

    The splits train and test have the same utterances, which are returned as {utterance id: (speaker,
    transcript, pronunciation, waveform)}.
    """
    texts = [("你好", "ni3 hao3"), ("你好吗", "ni3 hao3 ma5"), ("是", "shi4"), ("犇犇", "ben1 ben1")]
    utterances = {
        f"u{i}": (f"S{i % 3}", *texts[i % 4], make_waveform(4000 + 3000 * i, seed=i)) for i in range(8)
    }
    os.makedirs(path)
    for file, content in (
        (dataset_info.TOKENS_FILE, tokens),
        (dataset_info.CHARACTERS_FILE, CHARACTERS),
        (dataset_info.READINGS_FILE, READINGS),
    ):
        content.save(os.path.join(path, file))
    extract = extract if with_audio else lambda waveform: None
    records = [_make_record(key, tokens, *value, extract) for key, value in utterances.items()]
    if final_mark:
        records = [dataclasses.replace(record, written=record.transcript + final_mark) for record in records]
    splits = {name: _write_split(path, name, records) for name in ("train", "test")}
    _make_info(tokens, splits, features if with_audio else None).save(path)
    return utterances


def _make_config(
    model: str, tokens: vocabulary.Vocabulary, token_type: str = "syllable", encoder: str = "conformer"
) -> experiment.ExperimentConfig:
    is_acoustic = model == "acoustic"
    return experiment.ExperimentConfig(
        model=model,
        acoustic=dataclasses.replace(small_models.ACOUSTIC, encoder=encoder),
        language=small_models.LANGUAGE,
        punctuation=small_models.PUNCTUATION,
        optimizer=training_config.OptimizerConfig(),
        input=config_lib.InputConfig(),
        train=training_config.TrainConfig(model=model),
        frontend=FRONTEND if is_acoustic else None,
        token_type=token_type,
        tokens_sha256=tokens.sha256,
        characters_sha256=CHARACTERS.sha256,
        readings_sha256=READINGS.sha256,
    )


def _save_model(path: str, config: experiment.ExperimentConfig, files: dict, seed: int):
    """Writes config, vocabularies and a checkpoint."""
    os.makedirs(path)
    config.save(path)
    for file, content in files.items():
        content.save(os.path.join(path, file))
    return save_weights(model_directory.open_model_directory(path), seed)


def save_weights(model: model_directory.ModelDirectory, seed: int = 3) -> model_directory.ModelDirectory:
    """Writes a checkpoint with random weights; no weight keeps an initial value of zero or one."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        # The attention decoder is built only if there are labels.
        shapes = zip(model.config.spec.labels, ([None, None], [None]))
        labels = {name: tf.compat.v1.placeholder(tf.int32, shape) for name, shape in shapes}
        tasks.for_model(model).recognise(tasks.for_model(model).placeholders(), labels)
        assignments = [_assign_random(variable, seed) for variable in tf.compat.v1.global_variables()]
        assignments.append(tf.compat.v1.train.create_global_step().assign(GLOBAL_STEP))
        session.run(assignments)  # all at once: every call rewrites the whole graph
        tf.compat.v1.train.Saver(save_relative_paths=True).save(
            session, os.path.join(model.path, "model.ckpt"), GLOBAL_STEP
        )
    return model


def _assign_random(variable, seed: int):
    if variable.op.name.endswith("num_updates"):
        return variable.initializer
    # The values depend on the variable's name, but not on which other variables there are.
    rng = np.random.default_rng([seed, zlib.crc32(variable.op.name.encode())])
    # Offsets are small, so that the outputs depend on the inputs.
    is_offset = variable.op.name.endswith(("bias", "shift", "mean"))
    values = rng.normal(0, 0.1 if is_offset else 0.5, variable.shape.as_list())
    return variable.assign(np.float32(np.abs(values) if "variance" in variable.name else values))


def _make_record(utterance_id, tokens, speaker, transcript, pronunciation, waveform, extract):
    return schema.Record(
        utterance_id,
        speaker,
        transcript,
        pronunciation,
        tokens.encode(pronunciation.split()),
        CHARACTERS.encode(transcript),
        extract(waveform),
        1000 * len(waveform) // FRONTEND.sample_rate,
    )


def _write_split(path, split, records) -> dataset_info.SplitInfo:
    name = schema.shard_name(split, 0, 1)
    file = os.path.join(path, name)
    with tf.io.TFRecordWriter(file) as writer:
        for record in records:
            writer.write(schema.make_example(record))
    lengths = [len(record.fbank) for record in records if record.fbank is not None]
    return dataset_info.SplitInfo(
        num_utterances=len(records),
        num_speakers=len({record.speaker for record in records}),
        seconds=sum(record.duration_ms for record in records) / 1000,
        num_tokens=sum(len(record.token_ids) for record in records),
        num_characters=sum(len(record.character_ids) for record in records),
        unknown_tokens=0,
        unknown_characters=0,
        frame_lengths=dict(collections.Counter(lengths)),
        token_lengths=dict(collections.Counter(len(record.token_ids) for record in records)),
        shards=(dataset_info.ShardInfo(name, len(records), os.path.getsize(file), ""),),
    )


def _make_info(tokens, splits, features) -> dataset_info.DatasetInfo:
    num_bins = features.num_bins if features else 0
    return dataset_info.DatasetInfo(
        frontend=features,
        fbank_dtype="float32",
        token_type="syllable",
        tokens_sha256=tokens.sha256,
        characters_sha256=CHARACTERS.sha256,
        readings_sha256=READINGS.sha256,
        feature_mean=(8.0,) * num_bins,
        feature_stddev=(2.0,) * num_bins,
        splits=splits,
        num_rejected=0,
    )
