"""Puts the trained models, the frontend and the vocabularies into one SavedModel.

    python -m estimator_asr.export --acoustic_model_dir=AM [--language_model_dir=LM] --export_dir=EXPORT

Each export is a new version EXPORT/<number>/; older ones stay. The weights are those that were best on the
dev split, or the latest ones if training kept no best.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow loads; errors still come as exceptions

import tensorflow as tf
import tqdm
from absl import logging

from estimator_asr.serving import saved_model_writer, trained_model
from tfrecord_builder import config_flags, errors, vocabulary

# Token type of an acoustic model to that of the language models that read its output; initials and finals are
# joined to syllables first.
_READ_TOKEN_TYPES = {"syllable": "syllable", "initial_final": "syllable", "toneless": "toneless"}


@dataclasses.dataclass(frozen=True)
class ExportConfig:
    """What to export to where."""

    acoustic_model_dir: Optional[str] = config_flags.setting(None, "model directory of the acoustic model")
    language_model_dir: Optional[str] = config_flags.setting(
        None, "model directory of the language model; without it transcripts are tokens"
    )
    export_dir: Optional[str] = config_flags.setting(None, "where the version is made")

    def __post_init__(self):
        config_flags.validate(self)
        for name in ("acoustic_model_dir", "export_dir"):
            if getattr(self, name) is None:
                raise errors.UserError(f"export: --{name} is missing; give a directory")
        if os.path.exists(self.export_dir) and not os.path.isdir(self.export_dir):
            raise errors.UserError(f"export: --export_dir={self.export_dir} is a file, expected a directory")


def export(config: ExportConfig) -> str:
    """Writes the SavedModel; returns the path of the version."""
    paths = {"acoustic": config.acoustic_model_dir}
    if config.language_model_dir is not None:
        paths["language"] = config.language_model_dir
    with tqdm.tqdm(desc="export", total=len(paths) + 1, unit="step", disable=None) as progress:
        opened = {kind: _open(path, kind, progress) for kind, path in paths.items()}
        acoustic, language = opened["acoustic"], opened.get("language")
        progress.clear()  # makes room for the lines that follow
        if language is not None:
            _check_token_types(acoustic, language)
            _check_shared_tokens(acoustic, language)
        for kind, trained in opened.items():
            logging.info("%s model: %s", kind, trained.checkpoint)
        path = saved_model_writer.write(acoustic, language, config.export_dir)
        progress.update()
    return path


def _open(path: str, kind: str, progress: tqdm.tqdm) -> trained_model.TrainedModel:
    trained = trained_model.open_trained_model(path)
    trained_model.require_kind(trained, kind, f"{kind}_model_dir")
    progress.update()
    return trained


def _check_token_types(acoustic: trained_model.TrainedModel, language: trained_model.TrainedModel) -> None:
    """Refuses a language model that does not read what the acoustic one writes."""
    written, read = acoustic.model.config.token_type, language.model.config.token_type
    if _READ_TOKEN_TYPES.get(written) != read:
        readers = [f"{reader} for {token_type}" for token_type, reader in _READ_TOKEN_TYPES.items()]
        raise errors.UserError(
            f"export: --acoustic_model_dir={acoustic.model.path} writes token type {written} and "
            f"--language_model_dir={language.model.path} reads token type {read}, "
            f"expected {', '.join(readers)}; "
            "leave the language model out, or train both on matching token types"
        )


def _check_shared_tokens(acoustic: trained_model.TrainedModel, language: trained_model.TrainedModel) -> None:
    """Refuses a language model that knows no token of the acoustic one; warns if it lacks some."""
    # Initials and finals do not say which syllables they make.
    if acoustic.model.config.token_type != language.model.config.token_type:
        return
    spoken = set(acoustic.model.tokens.tokens) - {vocabulary.UNKNOWN}
    missing = spoken.difference(language.model.tokens.tokens)
    paths = acoustic.model.path, language.model.path
    if missing == spoken:
        raise errors.UserError(
            "export: --language_model_dir={1} knows none of the {2} tokens of --acoustic_model_dir={0} "
            "({3} against {4}); train both on the same token type".format(
                *paths, len(spoken), _examples(spoken), _examples(language.model.tokens.tokens[1:])
            )
        )
    if missing:
        logging.warning(
            "%s lacks %d of the %d tokens of %s and takes them for <unk>: %s",
            paths[1],
            len(missing),
            len(spoken),
            paths[0],
            _examples(missing),
        )


def _examples(tokens) -> str:
    shown = sorted(tokens)[:5]
    return ", ".join(shown) + (", ..." if len(tokens) > len(shown) else "")


def define_flags() -> None:
    config_flags.define(ExportConfig)


def main(argv: list[str]) -> None:
    del argv  # no words are accepted
    logging.set_verbosity(logging.INFO)
    tf.get_logger().setLevel("ERROR")
    path = export(config_flags.from_flags(ExportConfig))
    print(path)


if __name__ == "__main__":
    errors.run_program(main, define_flags)
