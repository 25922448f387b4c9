"""A model directory: config.json and the vocabularies beside the checkpoints; no flag must be given twice."""

from __future__ import annotations

import dataclasses
import os
import shutil
from typing import Optional

import tensorflow as tf

from estimator_asr import config as config_lib
from tfrecord_builder import config_flags, dataset_info, errors, vocabulary
from tfrecord_builder import readings as readings_lib

# The variable and the axis that has one place per class.
_CLASSES = {"acoustic": ("acoustic/ctc/bias", -1), "language": ("language/characters", 0)}
_VOCABULARY_HASHES = {
    "acoustic": {"tokens_sha256": dataset_info.TOKENS_FILE},
    "language": {
        "tokens_sha256": dataset_info.TOKENS_FILE,
        "characters_sha256": dataset_info.CHARACTERS_FILE,
        "readings_sha256": dataset_info.READINGS_FILE,
    },
}


@dataclasses.dataclass(frozen=True)
class ModelDirectory:
    """An opened model directory; characters and readings are None for an acoustic model."""

    path: str
    config: config_lib.ExperimentConfig
    tokens: vocabulary.Vocabulary
    characters: Optional[vocabulary.Vocabulary]
    readings: Optional[readings_lib.Readings]

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
    config = config_lib.ExperimentConfig.load(path)
    is_language = config.model == "language"
    tokens = vocabulary.Vocabulary.load(os.path.join(path, dataset_info.TOKENS_FILE))
    characters, readings = None, None
    if is_language:
        characters = vocabulary.Vocabulary.load(os.path.join(path, dataset_info.CHARACTERS_FILE))
        readings = readings_lib.Readings.load(os.path.join(path, dataset_info.READINGS_FILE))
    model = ModelDirectory(path, config, tokens, characters, readings)
    _check_files(model)
    return model


def create_or_check(path: str, config: config_lib.ExperimentConfig, data_dir: str) -> ModelDirectory:
    """Makes the model directory, or checks that an existing one can go on with `config`, and writes
    config.json.

    Args:
        path: the model directory.
        config: of this run. Optimizer, input and loop may differ from the last run's; the model may not.
        data_dir: where a new directory's vocabularies are copied from.

    Raises:
        errors.UserError: the existing one has another vocabulary, frontend or architecture; both sides are
        named.
    """
    if os.path.exists(os.path.join(path, config_lib.CONFIG_FILE)):
        saved = open_model_directory(path).config
        _check_same_model(path, saved, config)
        # The statistics are part of the model: what the weights were trained on stays.
        config = dataclasses.replace(
            config, feature_mean=saved.feature_mean, feature_stddev=saved.feature_stddev
        )
    else:
        os.makedirs(path, exist_ok=True)
        for file in _VOCABULARY_HASHES[config.model].values():
            shutil.copyfile(os.path.join(data_dir, file), os.path.join(path, file))
    config.save(path)
    return open_model_directory(path)


def check_data(model: ModelDirectory, info: dataset_info.DatasetInfo, data_dir: str) -> None:
    """Checks that the data is what the model reads.

    Raises:
        errors.UserError: another vocabulary or frontend; names both directories and both values.
    """
    for key, file in _VOCABULARY_HASHES[model.config.model].items():
        got, want = getattr(info, key), getattr(model.config, key)
        if got != want:
            raise errors.UserError(
                f"{data_dir}: {file} has sha256 {got[:12]}, expected {want[:12]} as in {model.path}; "
                f"build the data with --vocabulary_dir={model.path}, or train a new --model_dir"
            )
    if model.config.model == "acoustic" and info.frontend != model.config.frontend:
        raise errors.UserError(
            f"{data_dir}: frontend is {_to_text(info.frontend)}, expected {_to_text(model.config.frontend)} "
            f"as in {model.path}; build the data with that frontend, or train a new --model_dir"
        )


def latest_checkpoint(path: str) -> str:
    """Returns the prefix of the newest checkpoint.

    Raises:
        errors.UserError: there is none.
    """
    checkpoint = tf.train.latest_checkpoint(path)
    if checkpoint is None:
        raise errors.UserError(
            f"{path}: there is no checkpoint; "
            f"train first with python -m estimator_asr.train --model_dir={path}"
        )
    return checkpoint


def check_checkpoint(checkpoint: str, model: ModelDirectory) -> None:
    """Checks that the checkpoint's output has the classes of the model's vocabulary.

    Raises:
        errors.UserError: it has not; names both sizes and why.
    """
    shapes = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    name, axis = _CLASSES[model.config.model]
    if name not in shapes:
        raise errors.UserError(
            f"{checkpoint}: has no variable {name}, expected a checkpoint of the {model.config.model} model; "
            "give the model directory that it belongs to"
        )
    if shapes[name][axis] != model.num_classes:
        raise errors.UserError(
            f"{checkpoint}: output has {shapes[name][axis]} classes, expected {model.num_classes} "
            f"({_describe_classes(model)}), because it was trained with another vocabulary; "
            "restore the vocabulary that belongs to it, or train a new --model_dir"
        )


def _describe_classes(model):
    if model.characters:
        return f"{model.characters.size} characters in {dataset_info.CHARACTERS_FILE}"
    return f"{model.tokens.size} tokens in {dataset_info.TOKENS_FILE} and the blank"


def _check_files(model):
    loaded = {
        "tokens_sha256": model.tokens,
        "characters_sha256": model.characters,
        "readings_sha256": model.readings,
    }
    for key, file in _VOCABULARY_HASHES[model.config.model].items():
        got, want = loaded[key].sha256, getattr(model.config, key)
        if got != want:
            raise errors.UserError(
                f"{os.path.join(model.path, file)}: sha256 is {got[:12]}, expected {want[:12]} as in "
                f"{config_lib.CONFIG_FILE}; restore the file that the model was trained with"
            )


def _check_same_model(path, saved, wanted):
    """Refuses a run whose model is not the saved one."""
    keys = ["model", wanted.model, *_VOCABULARY_HASHES[wanted.model]]
    keys += ["frontend", "unit"] if wanted.model == "acoustic" else []
    for key in keys:
        got, want = getattr(wanted, key), getattr(saved, key)
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
        return ", ".join(f"{key}={item}" for key, item in config_flags.to_json_dict(value).items())
    return str(value)
