"""Exports the trained models, the frontend and the vocabularies as one SavedModel.

    python -m estimator_asr.export --acoustic_model_dir=AM [--language_model_dir=LM] --export_dir=EXPORT

Each export is a new version EXPORT/<number>/; older ones stay. The weights are those of the best checkpoint
on dev, or of the latest one if training kept no best.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Optional

from tfrecord_builder import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf
import tqdm
from absl import logging

from estimator_asr import model_directory, task_spec
from estimator_asr.serving import saved_model_writer, trained_model
from tfrecord_builder import config_flags, errors, program, vocabulary

# Token type of an acoustic model to that of the language models that read its output; initials and finals are
# joined to syllables first.
_READ_TOKEN_TYPES = {"syllable": "syllable", "initial_final": "syllable", "toneless": "toneless"}


@dataclasses.dataclass(frozen=True)
class ExportConfig(config_flags.Checked):
    """Flags of export."""

    acoustic_model_dir: str = config_flags.setting("", "model directory of the acoustic model", required=True)
    language_model_dir: Optional[str] = config_flags.setting(
        None, "model directory of the language model; without it transcripts are tokens"
    )
    export_dir: str = config_flags.setting("", "directory in which the version is written", required=True)
    decoding: Optional[str] = config_flags.setting(
        None, "search for the tokens, beam or greedy; default: that of the acoustic model's directory"
    )

    def __post_init__(self):
        super().__post_init__()
        if os.path.exists(self.export_dir) and not os.path.isdir(self.export_dir):
            raise errors.UserError(f"export: --export_dir={self.export_dir} is a file; give a directory")


def export(config: ExportConfig) -> str:
    """Writes the SavedModel; returns the path of the version."""
    num_models = 1 if config.language_model_dir is None else 2
    with tqdm.tqdm(desc="export", total=num_models + 1, unit="step", disable=None) as progress:
        acoustic = _open(config, task_spec.ACOUSTIC, progress)
        language = _open(config, task_spec.LANGUAGE, progress) if num_models == 2 else None
        progress.clear()  # makes room for the lines that follow
        if language is not None:
            _check_token_types(acoustic.model, language.model)
            _check_shared_tokens(acoustic.model, language.model)
        for trained in filter(None, (acoustic, language)):
            logging.info("%s model: %s", trained.model.config.spec.name, trained.checkpoint)
        path = saved_model_writer.write(acoustic, language, config.export_dir)
        progress.update()
    return path


def _open(config: ExportConfig, want: task_spec.TaskSpec, progress: tqdm.tqdm) -> trained_model.TrainedModel:
    flag = f"{want.name}_model_dir"
    trained = trained_model.open_trained_model(getattr(config, flag), config.decoding)
    got = trained.model.config.spec
    if got != want:
        raise errors.UserError(
            f"{trained.model.path}: contains the {got.name} model, expected the {want.name} model; "
            f"give another --{flag}"
        )
    progress.update()
    return trained


def _check_token_types(
    acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory
) -> None:
    """Refuses a language model that does not read what the acoustic one writes."""
    written, read = acoustic.config.token_type, language.config.token_type
    if _READ_TOKEN_TYPES.get(written) != read:
        readers = [f"{reader} for {token_type}" for token_type, reader in _READ_TOKEN_TYPES.items()]
        raise errors.UserError(
            f"export: --acoustic_model_dir={acoustic.path} writes token type {written} and "
            f"--language_model_dir={language.path} reads token type {read}, expected {', '.join(readers)}; "
            "leave the language model out, or train both on matching token types"
        )


def _check_shared_tokens(
    acoustic: model_directory.ModelDirectory, language: model_directory.ModelDirectory
) -> None:
    """Refuses a language model that knows no token of the acoustic one; warns if it lacks some."""
    if acoustic.config.token_type != language.config.token_type:  # of syllables that initials and finals make
        return
    spoken = set(acoustic.tokens.tokens) - {vocabulary.UNKNOWN}
    missing = spoken.difference(language.tokens.tokens)
    if missing == spoken:
        raise errors.UserError(
            f"export: --language_model_dir={language.path} knows none of the {len(spoken)} tokens of "
            f"--acoustic_model_dir={acoustic.path} ({_examples(spoken)} against "
            f"{_examples(language.tokens.tokens[1:])}); train both on the same token type"
        )
    if missing:
        message = "%s lacks %d of the %d tokens of %s and reads them as <unk>: %s"
        logging.warning(message, language.path, len(missing), len(spoken), acoustic.path, _examples(missing))


def _examples(tokens) -> str:
    return ", ".join(sorted(tokens)[:5]) + (", ..." if len(tokens) > 5 else "")


def main(config: ExportConfig) -> None:
    logging.set_verbosity(logging.INFO)
    tf.get_logger().setLevel("ERROR")
    print(export(config))


if __name__ == "__main__":
    program.run(main, ExportConfig)
