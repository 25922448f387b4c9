"""A model directory: config.json and the vocabularies beside the checkpoints; no flag must be given twice."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import os
import shutil
from typing import Optional

from absl import logging

from estimator_asr import experiment
from tfrecord_builder import config_flags, config_json, dataset_info, errors, files, vocabulary
from tfrecord_builder import readings as readings_lib


@dataclasses.dataclass(frozen=True)
class ModelDirectory:
    """An opened model directory; characters and readings are None for an acoustic model."""

    path: str
    config: experiment.ExperimentConfig
    tokens: vocabulary.Vocabulary
    characters: Optional[vocabulary.Vocabulary]
    readings: Optional[readings_lib.Readings]

    @property
    def output_vocabulary(self) -> vocabulary.Vocabulary:
        """What the model writes: tokens or characters."""
        return self.characters or self.tokens

    @property
    def output_token_type(self) -> str:
        """Token type of what the model writes, one of vocabulary.TOKEN_TYPES."""
        return "character" if self.config.spec.writes_characters else self.config.token_type

    @property
    def num_classes(self) -> int:
        """Classes of the output: tokens and the blank, or characters."""
        return self.characters.size if self.characters else self.tokens.num_classes


def open_model_directory(path: str) -> ModelDirectory:
    """Reads config.json and the vocabularies.

    Raises:
        errors.UserError: there is no such directory, a file of it is missing, or a vocabulary is not the one
        of config.json.
    """
    if not os.path.isdir(path):
        raise errors.UserError(
            f"{path}: there is no such model directory; "
            f"train one with python -m estimator_asr.train --model_dir={path}"
        )
    return _open(path, experiment.ExperimentConfig.load(path), experiment.CONFIG_FILE)


def create_or_check(path: str, config: experiment.ExperimentConfig, data_dir: str) -> ModelDirectory:
    """Makes the model directory, or checks that one with a checkpoint can go on with `config`.

    Args, Raises: as check. config.json is written at the end.
    """
    model = check(path, config, data_dir)
    write(model, data_dir)
    return model


def check(path: str, config: experiment.ExperimentConfig, data_dir: str) -> ModelDirectory:
    """Returns the model that a run would train in a directory, new or with checkpoints; writes nothing.

    Args:
        path: the model directory.
        config: of this run. Optimizer, input, loop and what is training_only may differ from the last run's;
            the model may not.
        data_dir: whose vocabularies a new directory gets.

    Raises:
        errors.UserError: the existing one has another vocabulary, frontend or architecture (both sides are
            named), or a vocabulary of the data is damaged.
    """
    if not _has_checkpoint(path):
        return open_for_worker(path, config, data_dir)  # what is damaged does not become the model's
    saved = open_model_directory(path)
    _check_same_model(path, saved.config, config)
    return dataclasses.replace(saved, config=config)


def write(model: ModelDirectory, data_dir: str) -> None:
    """Writes the vocabularies of a new directory, or logs what the run changes in one with a checkpoint; then
    config.json.

    Args:
        model: what `check` returned.
        data_dir: where a new directory's vocabularies are copied from.
    """
    if _has_checkpoint(model.path):
        _log_changes(model)
    else:
        os.makedirs(model.path, exist_ok=True)
        _copy_vocabularies(model.config, data_dir, model.path)
    model.config.save(model.path)


def open_for_worker(path: str, config: experiment.ExperimentConfig, data_dir: str) -> ModelDirectory:
    """Returns what create_or_check does, but writes nothing and does not wait for it: for all but the chief.

    Args:
        path: the model directory, which the chief makes.
        config: of this run.
        data_dir: whose vocabularies are the model's.

    Raises:
        errors.UserError: a vocabulary of the data is damaged.
    """
    return dataclasses.replace(_open(data_dir, config, dataset_info.INFO_FILE), path=path)


def check_data(
    path: str, config: experiment.ExperimentConfig, info: dataset_info.DatasetInfo, data_dir: str
) -> None:
    """Checks that the data in `data_dir` is what the model in `path` reads.

    Raises:
        errors.UserError: another vocabulary or frontend; names both directories and both values.
    """
    for key, file in _vocabulary_hashes(config).items():
        got, want = getattr(info, key), getattr(config, key)
        if got != want:
            raise errors.UserError(
                f"{data_dir}: {file} has sha256 {got[:12]}, expected {want[:12]} as in {path}; "
                f"build the data with --vocabulary_dir={path}, or train a new --model_dir"
            )
    if info.token_type != config.token_type:
        raise errors.UserError(
            f"{data_dir}: token_type is {info.token_type}, expected {config.token_type} as in {path}; "
            f"build the data with --token_type={config.token_type}, or train a new --model_dir"
        )
    if config.spec.reads_audio and info.frontend != config.frontend:
        raise errors.UserError(
            f"{data_dir}: frontend is {_to_text(info.frontend)}, expected {_to_text(config.frontend)} "
            f"as in {path}; build the data with that frontend, or train a new --model_dir"
        )


def copy_description(model: ModelDirectory, path: str) -> None:
    """Makes `path` a model directory of the same model, without weights: config.json and the vocabularies."""
    os.makedirs(path, exist_ok=True)
    _copy_vocabularies(model.config, model.path, path)
    model.config.save(path)


def _log_changes(model):
    changes = experiment.list_changes(experiment.ExperimentConfig.load(model.path), model.config)
    if changes:
        logging.info("%s: settings changed since the last run: %s", model.path, ", ".join(changes))


def _has_checkpoint(path):
    return bool(glob.glob(os.path.join(glob.escape(path), "model.ckpt-*.index")))


def _copy_vocabularies(config, source_dir, target_dir):
    for file in _vocabulary_hashes(config).values():
        with files.open_binary(os.path.join(source_dir, file)) as source:
            with files.writing(os.path.join(target_dir, file)) as beside, open(beside, "wb") as target:
                shutil.copyfileobj(source, target)


def _open(path, config, source):
    """Reads the vocabularies that a model of `config` has; `source` is the file that told their hashes."""
    tokens = vocabulary.Vocabulary.load(os.path.join(path, dataset_info.TOKENS_FILE))
    characters, readings = None, None
    if config.spec.writes_characters:
        characters = vocabulary.Vocabulary.load(os.path.join(path, dataset_info.CHARACTERS_FILE))
        readings = readings_lib.Readings.load(os.path.join(path, dataset_info.READINGS_FILE))
    model = ModelDirectory(path, config, tokens, characters, readings)
    _check_files(model, source)
    return model


def _check_files(model, source):
    loaded = {
        "tokens_sha256": model.tokens,
        "characters_sha256": model.characters,
        "readings_sha256": model.readings,
    }
    hashes = {key: content.sha256 for key, content in loaded.items() if content}
    hashes["bpe_sha256"] = _hash_pieces(model)
    for key, file in _vocabulary_hashes(model.config).items():
        got, want = hashes[key], getattr(model.config, key)
        if got != want:
            raise errors.UserError(
                f"{os.path.join(model.path, file)}: sha256 is {got[:12]}, expected {want[:12]} as in "
                f"{source}; restore the file that belongs to it"
            )


def _hash_pieces(model):
    """The digest of bpe.model, with which more data for the model is built; nobody here reads it."""
    if not model.config.bpe_sha256:
        return ""
    path = os.path.join(model.path, dataset_info.BPE_FILE)
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise errors.UserError(
            f"{path}: pieces cannot be read, {error.strerror}; restore the file that belongs to the tokens"
        ) from error


def _vocabulary_hashes(config):
    """Key of config to file, for the files that a model of `config` has."""
    pieces = {"bpe_sha256": dataset_info.BPE_FILE} if config.bpe_sha256 else {}
    return {**config.spec.vocabularies, **pieces}


def _check_same_model(path, saved, wanted):
    """Refuses a run whose model is not the saved one."""
    keys = ["model", wanted.model, *wanted.spec.vocabularies, "bpe_sha256"]
    keys += ["frontend", "token_type"] if wanted.spec.reads_audio else []
    for key in keys:
        got, want = getattr(wanted, key), getattr(saved, key)
        if key == wanted.model:
            want = config_flags.with_training_settings(want, got)
        if got != want:
            got, want = _differing_text(got, want)
            raise errors.UserError(
                f"{path}: {key} is {got} in this run, but the directory was trained with {want}; "
                "give the same flags and data, or another --model_dir"
            )


def _differing_text(got, want):
    """Both sides as text, reduced to the fields that differ."""
    if not dataclasses.is_dataclass(got) or not dataclasses.is_dataclass(want):
        return _to_text(got), _to_text(want)
    names = [
        field.name
        for field in dataclasses.fields(got)
        if getattr(got, field.name) != getattr(want, field.name)
    ]
    return tuple(", ".join(f"{name}={getattr(side, name)}" for name in names) for side in (got, want))


def _to_text(value):
    if dataclasses.is_dataclass(value):
        return ", ".join(f"{key}={item}" for key, item in config_json.to_json_dict(value).items())
    return str(value)
