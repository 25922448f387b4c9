"""Model directories: the config.json, vocabularies and checkpoints that together define a model."""

from __future__ import annotations

import dataclasses
import glob
import os
from collections.abc import Mapping
from typing import Any, Optional

from absl import logging

from estimator_asr.experiment import back_off_arrays, decoding_files, experiment
from estimator_asr.experiment import config as config_lib
from tfrecord_builder import errors
from tfrecord_builder.audio import pretrained_encoder
from tfrecord_builder.data import dataset_info, vocabulary
from tfrecord_builder.data import readings as readings_lib
from tfrecord_builder.program import config_flags, config_json
from tfrecord_builder.storage import files


@dataclasses.dataclass(frozen=True)
class ModelDirectory:
    """An opened model directory; a model has only the vocabularies that its TaskSpec lists.

    An acoustic model has no `characters` and `readings`. A punctuation model has no `readings`, and its
    `tokens` contain only <unk>.
    """

    path: str
    config: experiment.ExperimentConfig
    tokens: vocabulary.Vocabulary
    characters: Optional[vocabulary.Vocabulary]
    readings: Optional[readings_lib.Readings]
    decode: config_lib.DecodeConfig = config_lib.DecodeConfig()
    ngram: Optional[back_off_arrays.BackOffArrays] = None  # n-gram model over the output vocabulary
    whisper: Any = None  # Whisper's decoder (models.whisper_decoder.DecoderArrays), or None

    @property
    def output_vocabulary(self) -> vocabulary.Vocabulary:
        """Vocabulary of the hypotheses: tokens, or characters (with marks in the punctuation model)."""
        return self.characters or self.tokens

    @property
    def num_classes(self) -> int:
        """Size of the variable spec.class_variable: tokens and the blank, or characters."""
        return self.characters.size if self.characters else self.tokens.num_classes


def open_model_directory(path: str) -> ModelDirectory:
    """Reads the config.json, vocabularies and decoding files of a model directory.

    Raises errors.UserError if the directory or a required file is missing, or if the hash of a vocabulary
    differs from the one in config.json.
    """
    if not os.path.isdir(path):
        raise errors.UserError(
            f"{path}: the model directory does not exist; train a model with python -m estimator_asr.train "
            f"--model_dir={path}"
        )
    model = _open(path, experiment.ExperimentConfig.load(path), experiment.CONFIG_FILE)
    decoding = decoding_files.load(path, model.output_vocabulary.size)
    if decoding.whisper is not None:
        encoder = model.config.frontend.encoder
        want = {"tokens": model.config.tokens_sha256, "encoder": encoder.encoder.sha256 if encoder else ""}
        check_whisper(f"{path}: Whisper's decoder", decoding.whisper, want, path)
    return dataclasses.replace(model, **decoding._asdict())


def check_whisper(where: str, whisper: Any, expected: Mapping[str, str], path: str) -> None:
    """Raises UserError if Whisper's decoder does not fit the model or export in `path`.

    The keys of `expected` are tokens, encoder, characters or readings; the values are the sha256 hashes.
    The error message starts with `where`.
    """
    for name, want in expected.items():
        got = str(getattr(whisper, f"{name}_sha256"))
        if got != want:
            raise errors.UserError(
                f"{where}: the sha256 of its {name} is {got[:12]}, expected {want[:12]} as in {path}; "
                "remove decoding.json and run python -m estimator_asr.tune --whisper_decoder again"
            )


def check(path: str, config: experiment.ExperimentConfig, data_dir: str) -> ModelDirectory:
    """Returns the model that a run would train in a new or existing directory; writes nothing.

    A new model gets the data's vocabularies. If the directory has checkpoints, the settings in the model's
    section must be unchanged, except those that are training_only; all other settings may differ. Constants
    keep the values that they have in the directory.

    Raises errors.UserError if the existing model has another vocabulary, frontend or architecture (the
    message shows both values), or if one of the data's vocabularies is damaged.
    """
    if not _has_checkpoint(path):
        return open_new(path, config, data_dir)
    model = open_model_directory(path)
    config = config_flags.with_constants(config, model.config)
    keys = ["model", config.model, *config.spec.vocabularies, "bpe_sha256"]
    keys += ["frontend", "token_type"] if config.spec.reads_audio else []
    for key in keys:
        got, want = getattr(config, key), getattr(model.config, key)
        if key == config.model:
            want = config_flags.with_training_settings(want, got)
        if got != want:
            got, want = _describe_difference(got, want)
            raise errors.UserError(
                f"{path}: {key} is {got} in this run, but the directory was trained with {want}; "
                "use the same flags and data, or another --model_dir"
            )
    return dataclasses.replace(model, config=config)


def write(model: ModelDirectory, data_dir: str) -> None:
    """Writes config.json; copies vocabularies into a new directory, or logs settings that have changed."""
    if not _has_checkpoint(model.path):
        copy_description(model, model.path, data_dir)
        return
    saved, changes = experiment.ExperimentConfig.load(model.path), []
    for section in (model.config.model, "optimizer", "input"):
        old, new = (config_json.to_json_dict(getattr(config, section)) for config in (saved, model.config))
        changes += [f"--{name} {old[name]} -> {value}" for name, value in new.items() if old[name] != value]
    if changes:
        logging.info("%s: settings changed since the last run: %s", model.path, ", ".join(changes))
    model.config.save(model.path)


def open_new(path: str, config: experiment.ExperimentConfig, data_dir: str) -> ModelDirectory:
    """Returns a model with the data's vocabularies; writes nothing, and `path` need not exist.

    All workers except the chief open the model in this way, so that they need not wait for the directory.
    If the directory has checkpoints, constants keep the values that they have there.
    Raises errors.UserError if one of the data's vocabularies is damaged.
    """
    if _has_checkpoint(path):
        config = config_flags.with_constants(config, experiment.ExperimentConfig.load(path))
    return dataclasses.replace(_open(data_dir, config, dataset_info.INFO_FILE), path=path)


def check_data(
    path: str, config: experiment.ExperimentConfig, info: dataset_info.DatasetInfo, data_dir: str
) -> None:
    """Raises errors.UserError if the data's vocabulary, token type or frontend differs from the model's."""
    pairs = {
        f"sha256 of {file}": (getattr(info, key)[:12], getattr(config, key)[:12])
        for key, file in _vocabulary_files(config).items()
    }
    pairs["token_type"] = info.token_type, config.token_type
    if config.spec.reads_audio:
        pairs["frontend"] = info.frontend, config.frontend
    refuse_difference(data_dir, path, pairs, path, config)


def refuse_difference(
    data_dir: str, path: str, pairs: Mapping[str, tuple], vocabulary_dir: str, model: Any
) -> None:
    """Raises errors.UserError if the data differ from the model; the message says how to build data that fit.

    Args:
        data_dir, path: paths of the data and the model.
        pairs: {property name: (value in the data, value in the model)}.
        vocabulary_dir: directory that contains the model's vocabularies.
        model: an ExperimentConfig or ExportInfo, whose token_type and frontend the data must have.
    """
    flags = {"vocabulary_dir": vocabulary_dir, "token_type": model.token_type}
    flags.update(config_json.to_json_dict(model.frontend) if model.frontend else {})
    encoder = flags.pop("encoder", None)
    advice = "build the data with " + " ".join(f"--{flag}={value}" for flag, value in flags.items())
    if encoder:
        layers = ",".join(map(str, encoder["layers"]))
        has_weights = files.exists(os.path.join(vocabulary_dir, pretrained_encoder.FILES[1]))
        weights = vocabulary_dir if has_weights else "WEIGHTS"  # an export does not contain this file
        program = f"python -m estimator_asr.encode --weights={weights} --layers={layers}"
        advice += f", encode them with {program}"
    for name, (got, want) in pairs.items():
        if got != want:
            got, want = _describe_difference(got, want)
            raise errors.UserError(
                f"{data_dir}: {name} is {got}, expected {want} as in {path}; {advice}, or use another model"
            )


def copy_description(model: ModelDirectory, path: str, source_dir: Optional[str] = None) -> None:
    """Writes a model directory without checkpoints: config.json, vocabularies and the frozen encoder, if any.

    Vocabularies and encoder are copied from `source_dir`. If `source_dir` is None, they are copied from the
    model's directory, together with its decoding files.
    """
    os.makedirs(path, exist_ok=True)
    frontend = model.config.frontend
    encoder_files = pretrained_encoder.FILES if frontend and frontend.encoder else ()
    for file in (*_vocabulary_files(model.config).values(), *encoder_files):
        files.copy(os.path.join(source_dir or model.path, file), os.path.join(path, file))
    model.config.save(path)
    if source_dir is None:
        decoding_files.copy(model.path, path)


def _has_checkpoint(path):
    return bool(glob.glob(os.path.join(glob.escape(path), "model.ckpt-*.index")))


def _vocabulary_files(config):
    """Returns a model's vocabulary files, as {config field that contains the file's sha256: file name}."""
    bpe = {"bpe_sha256": dataset_info.BPE_FILE} if config.bpe_sha256 else {}
    return {**config.spec.vocabularies, **bpe}


def _open(path, config, source):
    """Reads the vocabularies in `path`, and checks their hashes against `config`, read from `source`."""
    read = {
        dataset_info.TOKENS_FILE: vocabulary.Vocabulary.load,
        dataset_info.CHARACTERS_FILE: vocabulary.Vocabulary.load,
        dataset_info.READINGS_FILE: readings_lib.Readings.load,
    }
    used = config.spec.vocabularies.values()
    tokens, characters, readings = (
        load(os.path.join(path, file)) if file in used else None for file, load in read.items()
    )
    for key, name in _vocabulary_files(config).items():
        file, want = os.path.join(path, name), getattr(config, key)
        try:
            got = files.sha256(file)
        except OSError as error:
            raise errors.UserError(f"{file}: cannot be read ({error.strerror}); restore the file") from error
        if got != want:
            raise errors.UserError(
                f"{file}: sha256 is {got[:12]}, expected {want[:12]} as in {source}; restore the file"
            )
    return ModelDirectory(path, config, tokens or vocabulary.Vocabulary.build([]), characters, readings)


def _describe_difference(got, want):
    """Returns both values for a message; a dataclass becomes a text with only the fields that differ."""
    sides = [config_json.to_json_dict(side) if dataclasses.is_dataclass(side) else {} for side in (got, want)]
    if not any(sides):
        return got, want
    names = [name for name in {**sides[0], **sides[1]} if sides[0].get(name) != sides[1].get(name)]
    return tuple(", ".join(f"{name}={side[name]}" for name in names) if side else "none" for side in sides)
